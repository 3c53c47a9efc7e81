# root.sh: bare Debian systems in folders, for tests. Sourced by scripts that run as root.
# All mounts are in a mount namespace of the script's own and all processes in a PID
# namespace of its own, so both are gone when it ends, however it does. This machine's
# cgroups are not in there.

# alone COMMAND… runs the calling script again in namespaces of its own, once.
alone() {
	[ "$(id -u)" = 0 ] || skip "it takes root to make a bare system"
	[ -n "${ALONE:-}" ] || ALONE=1 exec unshare --mount --pid --fork --kill-child --mount-proc --propagation private "$@"
}

skip() {
	echo "skipped: $*"
	exit 0
}

# cached SUITE prints the folder with a bare system as debootstrap makes it.
cached() {
	local dir=${XDG_CACHE_HOME:-$HOME/.cache}/homenode/roots/$1 mirror
	if [ ! -e "$dir/etc/debian_version" ]; then
		command -v debootstrap >/dev/null || return 1
		mirror=$(awk '/^URIs:/ { print $2; exit } $1 == "deb" { sub(/\[[^]]*\] */, ""); print $2; exit }' \
			/etc/apt/sources.list.d/debian.sources /etc/apt/sources.list 2>/dev/null || true)
		rm -rf "$dir.part"
		mkdir -p "$dir.part"
		debootstrap --variant=minbase "$1" "$dir.part" "${mirror:-http://deb.debian.org/debian}" >"$dir.log" 2>&1 || return 1
		mv "$dir.part" "$dir"
	fi
	echo "$dir"
}

# bare SUITE DIR puts a bare system into DIR, with what this machine needs to reach the
# archive and the Go modules.
bare() {
	local from
	from=$(cached "$1") || skip "no bare system of $1 (debootstrap or the network is missing)"
	mkdir -p "$2"
	cp -a "$from/." "$2"
	cp -L /etc/resolv.conf /etc/hosts "$2/etc/" 2>/dev/null || true
	if [ -d /etc/apt/apt.conf.d ]; then cp /etc/apt/apt.conf.d/99* "$2/etc/apt/apt.conf.d/" 2>/dev/null || true; fi
	mount --bind "$2" "$2" # what is no mount point cannot be made private, as rpm does
	mount -t proc proc "$2/proc"
	mount -t sysfs -o ro sysfs "$2/sys"
	mount -t tmpfs tmpfs "$2/run"
	mount -t devpts -o newinstance,ptmxmode=0666,mode=0620,gid=5 devpts "$2/dev/pts"
}

# ended DIR takes such systems away, with what still runs in them.
ended() {
	if [ $$ = 1 ]; then kill -9 -1 2>/dev/null || true; fi # all of this PID namespace
	sleep 0.2
	umount -q -l "$1"/{proc,sys,run,dev/pts} "$1"/*/{proc,sys,run,dev/pts} "$1" "$1"/* 2>/dev/null || true
	rm -rf --one-file-system "$1"
}

# inside DIR COMMAND… runs a command in such a system, with nothing of this machine's
# environment but the way to the network. With EXEC=exec and & its PID is $!.
inside() {
	local dir=$1
	shift
	# shellcheck disable=SC2046 # each is one word
	${EXEC:-} env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 TERM=dumb DEBIAN_FRONTEND=noninteractive \
		$(env | grep -E '^(GOPROXY|GONOSUMDB|GOSUMDB|GONOSUMCHECK|GOFLAGS|SSL_CERT_FILE|SSL_CERT_DIR|[a-zA-Z]*_proxy|[A-Z]*_PROXY)=' || true) \
		chroot "$dir" "$@"
}
