# disk/services.sh: systemd, and four programs that serve; sourced by fetch-disk.sh.
. e2e/disk/systemd.sh
about='systemd, redis, sqlite, memcached and nginx'
size=512M
packages=(systemd systemd-sysv dbus base-files netbase mount util-linux coreutils dash bash procps sed grep
	redis-server sqlite3 memcached nginx apache2-utils)
