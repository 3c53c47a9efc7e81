# disk/incus.sh: systemd, Incus and LXD with liblxc, for the guest in which system containers run; sourced by
# fetch-disk.sh. The one image is imported from /image.tar: busybox, and an init that runs a walker.
. e2e/disk/systemd.sh
about='systemd, Incus and LXD'
suite=trixie
size=1G
packages=(systemd systemd-sysv dbus base-files netbase mount util-linux coreutils dash bash procps sed grep tar busybox-static
	incus-base lxd)
without=('./usr/share/bash-completion/*' './usr/share/perl*' './usr/lib/*/perl*' './usr/share/zsh/*' './usr/share/fish/*' './usr/bin/lxd-user'
	'./usr/libexec/incus/incus-user')
eval "systemd_$(declare -f fill)"

fill() {
	systemd_fill
	printf 'incus-admin:x:107:\nincus:x:108:\nlxd:x:109:\n' >>"$tree/etc/group"
	# The IDs of containers' users, as the package passwd gives them to root.
	echo root:1000000:1000000000 | tee "$tree/etc/subuid" >"$tree/etc/subgid"
	local d=$out/image
	mkdir -p "$d"/rootfs/{bin,sbin,dev,proc,sys,tmp,etc,run,root,var,e2e}
	cp "$tree/usr/bin/busybox" "$d/rootfs/bin/busybox"
	for applet in sh cat sleep; do ln -s busybox "$d/rootfs/bin/$applet"; done
	# $WALK comes with the configuration of an instance. The walker's input must stay open.
	printf '#!/bin/sh\n/bin/sleep 2147483647 | /e2e/walker $WALK >/dev/null\n' >"$d/rootfs/sbin/init"
	chmod 755 "$d/rootfs/sbin/init"
	printf 'architecture: x86_64\ncreation_date: 1\nproperties: {description: a walker}\n' >"$d/metadata.yaml"
	tar -C "$d" --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner -cf "$tree/image.tar" metadata.yaml rootfs
	rm -rf "$d"
	# What an administrator gives to "init --preseed": no network, for the kernel of the guest has no bridge.
	cat >"$tree/etc/preseed.yaml" <<'E2'
storage_pools:
- name: default
  driver: dir
profiles:
- name: default
  devices:
    root: {type: disk, path: /, pool: default}
    e2e: {type: disk, path: /e2e, source: /e2e, readonly: "true"}
E2
}
