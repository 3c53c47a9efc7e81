# disk/docker.sh: systemd, Docker and Podman with crun, for the guest in which containers run as
# on a host without Kubernetes; sourced by fetch-disk.sh. Images are imported from /image.tar.
. e2e/disk/systemd.sh
about='systemd, Docker and Podman'
suite=forky
size=1G
packages=(systemd systemd-sysv dbus base-files netbase mount util-linux coreutils dash bash procps sed grep busybox-static
	docker.io docker-cli containerd runc podman crun conmon)
without=('./usr/share/bash-completion/*' './usr/share/perl*' './usr/lib/*/perl*' './usr/share/zsh/*' './usr/share/fish/*')
eval "systemd_$(declare -f fill)"

fill() {
	systemd_fill
	local d=$out/image
	mkdir -p "$d"/{bin,dev,proc,sys,tmp,etc,e2e}
	cp "$tree/usr/bin/busybox" "$d/bin/busybox"
	for applet in sh cat sleep; do ln -s busybox "$d/bin/$applet"; done
	tar -C "$d" --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner -cf "$tree/image.tar" .
	rm -rf "$d"
	mkdir -p "$tree/etc/containers" "$tree/var/lib/docker" "$tree/var/lib/containers"
	echo '{"default": [{"type": "insecureAcceptAnything"}]}' >"$tree/etc/containers/policy.json"
}
