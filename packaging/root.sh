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

fail() {
	echo "FAIL $*"
	exit 1
}

ok() { echo "ok   $*"; }

# serve FOLDER LOG: a web server of a folder, as long as the script runs; sets port.
serve() {
	(cd "$1" && exec python3 -u -m http.server --bind 127.0.0.1 0) >"$2" 2>&1 &
	disown
	for _ in $(seq 50); do
		port=$(sed -n 's/^Serving HTTP on 127.0.0.1 port \([0-9]*\).*/\1/p' "$2")
		[ -z "$port" ] || break
		sleep 0.1
	done
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
		case $1 in
		jammy | noble | questing) # Ubuntu; its keys are in a package of Debian
			(
				cache=$dir.keys mirror=${mirror:-http://deb.debian.org/debian}
				mkdir -p "$cache"
				. e2e/apt.sh
				APT_CONFIG=$(private trixie) || exit 1
				export APT_CONFIG
				cd "$cache" && apt-get -qq download ubuntu-keyring && dpkg -x ubuntu-keyring_*.deb .
			) >"$dir.log" 2>&1 || return 1
			debootstrap --variant=minbase --keyring="$dir.keys/usr/share/keyrings/ubuntu-archive-keyring.gpg" \
				"$1" "$dir.part" http://archive.ubuntu.com/ubuntu /usr/share/debootstrap/scripts/gutsy >"$dir.log" 2>&1 || return 1
			echo "deb http://archive.ubuntu.com/ubuntu $1 main universe" >"$dir.part/etc/apt/sources.list"
			;;
		*) debootstrap --variant=minbase "$1" "$dir.part" "${mirror:-http://deb.debian.org/debian}" >"$dir.log" 2>&1 || return 1 ;;
		esac
		mv "$dir.part" "$dir"
	fi
	echo "$dir"
}

# serviced SUITE prints the folder with a bare system that has systemd and what Ansible needs.
serviced() {
	local from dir=${XDG_CACHE_HOME:-$HOME/.cache}/homenode/roots/$1-systemd
	if [ ! -e "$dir/sbin/init" ]; then
		from=$(cached "$1") || return 1
		rm -rf "$dir.part"
		cp -a "$from" "$dir.part"
		cp -L /etc/resolv.conf /etc/hosts "$dir.part/etc/" 2>/dev/null || true
		if [ -d /etc/apt/apt.conf.d ]; then cp /etc/apt/apt.conf.d/99* "$dir.part/etc/apt/apt.conf.d/" 2>/dev/null || true; fi
		inside "$dir.part" sh -c 'apt-get -qq update && apt-get -qq -y install --no-install-recommends systemd systemd-sysv dbus python3-minimal python3-apt' >"$dir.log" 2>&1 || return 1
		mv "$dir.part" "$dir"
	fi
	echo "$dir"
}

# bare SUITE DIR puts a bare system into DIR, with what this machine needs to reach the
# archive and the Go modules. With MADE=serviced it has systemd.
bare() {
	local from
	from=$(${MADE:-cached} "$1") || skip "no bare system of $1 (debootstrap or the network is missing)"
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

# state lists what is on the disk of a system, but for what dpkg, rpm, apt and systemd write
# about themselves.
state() {
	(cd "$1" && find . -xdev \( -path ./proc -o -path ./sys -o -path ./run -o -path ./tmp -o -path ./var/lib/rpm -o -path ./var/lib/dpkg -o -path ./var/log/dpkg.log \
		-o -path ./var/cache/ldconfig -o -path ./var/cache/apt -o -path ./var/lib/apt -o -path ./var/log/apt -o -path ./var/log/journal -o -path ./var/lib/systemd \) -prune \
		-o \( -type f -printf '%p %m %u %g ' -exec sha256sum -b {} \; \) -o -printf '%p %y %m %u %g %l\n' | sort)
}

# boot DIR starts the system's own systemd, in namespaces of its own; init is its PID then.
# Its root cgroup is a part of this machine's cgroup v2.
boot() {
	local dir=$1 unified i
	unified=$(findmnt -n -t cgroup2 -o TARGET | head -n 1)
	[ -n "$unified" ] || skip "this machine has no cgroup v2"
	part=$unified/homenode-test-$$-$(basename "$dir")
	mkdir "$part"
	(
		echo $BASHPID >"$part/cgroup.procs"
		exec unshare --mount --cgroup --uts --ipc --pid --fork --kill-child --propagation private sh -c '
			hostname "$(basename "$1")"
			mount -t proc proc "$1/proc"
			mount -t cgroup2 cgroup2 "$1/sys/fs/cgroup"
			mount -t tmpfs tmpfs "$1/tmp"
			cd "$1" && pivot_root . mnt && umount -l /mnt
			exec env -i container=other PATH=/usr/sbin:/usr/bin:/sbin:/bin /lib/systemd/systemd systemd.unit=multi-user.target </dev/null
		' sh "$dir"
	) >"$dir.boot" 2>&1 &
	local unshared=$!
	for i in $(seq 200); do
		sleep 0.2
		init=$(pgrep -P $unshared || true)
		[ "$(cat "/proc/${init:-none}/comm" 2>/dev/null)" = systemd ] || continue
		case $(within systemctl is-system-running 2>/dev/null) in
		running | degraded) return 0 ;; # units that a chroot cannot have may fail
		esac
	done
	cat "$dir.boot"
	skip "systemd does not start in a chroot of this machine"
}

# within COMMAND… runs a command in the system that boot has started.
within() {
	nsenter -t "$init" -m -p -C -u -i env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 TERM=dumb DEBIAN_FRONTEND=noninteractive "$@"
}

# halt ends that system and what is left of its cgroups.
halt() {
	kill -9 "$init" 2>/dev/null || true
	sleep 0.5
	find "$part" -depth -type d -exec rmdir {} + 2>/dev/null || true
}
