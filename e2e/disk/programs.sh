# disk/programs.sh: containerd as on disk/containerd.sh, and a second image with redis, sqlite, memcached and nginx,
# for the guest in which they run in pods; sourced by fetch-disk.sh. Their clients are programs of the disk.
. e2e/disk/containerd.sh
about='containerd, and an image with redis, sqlite, memcached and nginx'
size=768M
packages+=(redis-server redis-tools sqlite3 memcached nginx apache2-utils)
eval "containerd_$(declare -f fill)"

fill() {
	for applet in mkfifo rm touch; do [ -e "$tree/usr/bin/$applet" ] || ln -s busybox "$tree/usr/bin/$applet"; done
	containerd_fill
	archive "$tree/programs.tar" programs programs
	for program in redis-server memcached; do rm "$tree/usr/bin/$program"; done # these run in containers alone
	rm "$tree/usr/sbin/nginx"
}

# programs fills the root of an image: busybox, the programs, and the libraries that they name.
programs() {
	local root=$1 program library lib=usr/lib/x86_64-linux-gnu
	busybox "$root"
	for applet in env touch rm; do ln -s busybox "$root/bin/$applet"; done
	mkdir -p "$root"/{usr/bin,usr/sbin,$lib,lib64,var/log/nginx}
	ln -s /bin/busybox "$root/usr/bin/env"
	cp "$tree"/etc/{passwd,group} "$root/etc/"
	echo 'passwd: files
group: files' >"$root/etc/nsswitch.conf"
	cp -L "$tree/$lib/ld-linux-x86-64.so.2" "$root/lib64/"
	for program in usr/bin/redis-server usr/bin/sqlite3 usr/bin/memcached usr/sbin/nginx; do
		cp -L "$tree/$program" "$root/$program"
		"$tree/$lib/ld-linux-x86-64.so.2" --library-path "$tree/$lib" --list "$tree/$program" >"$out/libraries"
		while read -r library; do
			cp -L "$library" "$root/$lib/"
		done < <(sed -n "s|.* => \($tree/[^ ]*\) .*|\1|p" "$out/libraries")
	done
	rm "$out/libraries"
}
