# disk/bench.sh: systemd, and what bench/share runs; sourced by fetch-disk.sh.
. e2e/disk/systemd.sh
about='systemd, nginx, ffmpeg and stress-ng'
size=2G
packages=(systemd systemd-sysv dbus base-files netbase mount util-linux coreutils dash bash procps sed grep nginx ffmpeg stress-ng)
