# disk/bench.sh: systemd, what bench/share runs, and PostgreSQL; sourced by fetch-disk.sh.
. e2e/disk/systemd.sh
about='systemd, nginx, PostgreSQL, ffmpeg and stress-ng'
size=2G
packages=(systemd systemd-sysv dbus base-files netbase mount util-linux coreutils dash bash procps sed grep
	nginx postgresql-17 ffmpeg stress-ng)
