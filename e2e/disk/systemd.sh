# disk/systemd.sh: systemd and its bus, for the guest in which homenode runs as a
# service, and programs that are started there; sourced by fetch-disk.sh.
about=systemd
size=1G
packages=(systemd systemd-sysv dbus base-files netbase mount util-linux coreutils dash bash procps dpkg diffutils sed grep
	redis-server postgresql-17 default-jre-headless clojure)
# PostgreSQL compiles no queries here.
without=('./usr/lib/*/libLLVM*' './usr/lib/postgresql/*/lib/bitcode/*' './usr/lib/*/libz3*' './usr/share/i18n/*' './usr/share/icons/*')

# fill does what the packages' scripts would have done, but for users: systemd-sysusers
# makes them at boot.
fill() {
	mkdir -p "$tree"/{root,var/log,var/lib,etc/systemd/system/multi-user.target.wants}
	chmod 1777 "$tree/tmp"
	[ -e "$tree/usr/bin/sh" ] || ln -s dash "$tree/usr/bin/sh"
	cat >"$tree/etc/passwd" <<'E'
root:x:0:0:root:/root:/bin/sh
messagebus:x:101:101::/nonexistent:/usr/sbin/nologin
redis:x:105:105::/nonexistent:/usr/sbin/nologin
postgres:x:106:106::/nonexistent:/usr/sbin/nologin
nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin
E
	cat >"$tree/etc/group" <<'E'
root:x:0:
messagebus:x:101:
redis:x:105:
postgres:x:106:
nogroup:x:65534:
E
	echo systemd >"$tree/etc/hostname"
	# No screens, no clock to set, and nothing that waits for a device: there is no udev.
	for unit in getty.target systemd-timesyncd.service systemd-networkd.service systemd-logind.service systemd-hwdb-update.service \
		systemd-udevd.service systemd-journal-catalog-update.service systemd-update-done.service systemd-firstboot.service \
		dev-hugepages.mount dev-mqueue.mount systemd-random-seed.service systemd-pcrphase.service apt-daily.timer ldconfig.service systemd-modules-load.service; do
		ln -sf /dev/null "$tree/etc/systemd/system/$unit"
	done
	ln -sf /usr/lib/systemd/system/multi-user.target "$tree/etc/systemd/system/default.target"
	# The tests: the second disk's program does all, and powers the machine off.
	cat >"$tree/etc/systemd/system/e2e.service" <<'E'
[Unit]
Description=the tests on the second disk
Requires=dbus.socket
After=basic.target dbus.socket

[Service]
ExecStartPre=/usr/bin/mount -o ro /dev/vdb /e2e
ExecStart=/e2e/guest systemd
ExecStopPost=-/usr/bin/systemctl --no-block poweroff -f
TimeoutStartSec=infinity
Slice=-.slice
StandardOutput=journal+console
StandardError=journal+console
E
	ln -sf ../e2e.service "$tree/etc/systemd/system/multi-user.target.wants/e2e.service"
	mkdir -p "$tree/etc/systemd/system.conf.d" "$tree/etc/systemd/journald.conf.d"
	printf '[Manager]\nDefaultTimeoutStartSec=300\nDefaultDeviceTimeoutSec=5\nRuntimeWatchdogSec=0\n' >"$tree/etc/systemd/system.conf.d/e2e.conf"
	printf '[Journal]\nStorage=volatile\nRateLimitIntervalSec=0\n' >"$tree/etc/systemd/journald.conf.d/e2e.conf"
}
