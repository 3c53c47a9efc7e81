#!/bin/sh
# need.sh THING… installs what is missing, and only that, from the machine's own
# Debian or Ubuntu archive. Nothing that is installed is upgraded. Things are
# package names, or one of
#
#   go    a Go that can build this module: prints its path, or, with exit status 3,
#         the line that says what is missing
#   plan  says what `make run` will take on this machine
#   test  says what `make test` will
set -eu

note() { echo "$*" >&2; }
die() { echo "$*"; exit 3; }
updated=no
# install refuses before it changes anything, and names all that is missing: an
# ordinary user has one line to send to the administrator.
install() {
	command -v apt-get >/dev/null 2>&1 || { note "missing: $*; this machine has no apt to install it with"; return 3; }
	as_root=
	if [ "$(id -u)" != 0 ]; then
		as_root=sudo
		command -v sudo >/dev/null 2>&1 && { sudo -n true 2>/dev/null || { [ -t 0 ] && sudo -v; }; } || {
			note "missing, and you may not install: ask for \`apt-get install $*\`"
			return 3
		}
	fi
	note "installing $*"
	if [ $updated = no ]; then $as_root apt-get -qq update; updated=yes; fi
	$as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq -y install --no-upgrade --no-remove --no-install-recommends "$@" >&2
}
installed() {
	case $1 in
	hwloc-nox) command -v lstopo >/dev/null 2>&1 || command -v lstopo-no-graphics >/dev/null 2>&1 ;;
	*) dpkg-query -W -f '${Status}' "$1" 2>/dev/null | grep -q 'ok installed' ;;
	esac
}

wanted=$(sed -n 's/^go \(1\.[0-9]*\).*/\1/p' "$(dirname "$0")/../go.mod") # 1.26
not_older() { [ "$(printf '%s\n' "$1" "$2" | sort -V | head -n 1)" = "$2" ]; }

# go_ok GO VERSION: is it there, and not older?
go_ok() {
	v=$("$1" env GOVERSION 2>/dev/null) && not_older "${v#go}" "$2"
}

# mirror is the archive that this machine takes its own suite from, one-line or deb822.
mirror() {
	{
		cat /etc/apt/sources.list /etc/apt/sources.list.d/*.list 2>/dev/null |
			awk '$1 == "deb" { sub(/\[[^]]*\] */, ""); print $2, $3 }'
		for f in /etc/apt/sources.list.d/*.sources; do
			[ -e "$f" ] && awk '/^URIs:/ { uri = $2 } /^Suites:/ { for (i = 2; i <= NF; i++) print uri, $i }' "$f"
		done
	} | awk -v suite="$VERSION_CODENAME" '$2 == suite { print $1; exit }'
}

# packaged is the oldest Go of the archive that can build this module: golang-1.26-go.
packaged() {
	apt-cache pkgnames golang-1 | sed -n 's/^golang-\(1\.[0-9]*\)-go$/\1/p' | sort -V |
		while read -r v; do if not_older "$v" "$wanted"; then echo "golang-$v-go"; break; fi; done
}

cache=${XDG_CACHE_HOME:-$HOME/.cache}/homenode/go

# The distribution's Go is unpacked into the cache folder, beside the system and not
# into it: that needs no root. Debian's own Go is too old up to Debian 13, so its
# backports are asked too; what is in those of 13 runs on 12.
unpack_go() {
	command -v apt-get >/dev/null 2>&1 || die "missing: Go $wanted or later (https://go.dev/dl); this machine has no apt to fetch it with"
	. /etc/os-release
	tmp=$(mktemp -d); trap 'rm -rf "$tmp"' EXIT
	pkg=$(packaged)
	if [ -z "$pkg" ] && [ "$ID" = debian ]; then
		mkdir -p "$tmp/lists/partial" "$tmp/cache/archives/partial"
		from=$(mirror)
		for suite in $(printf '%s\n' "$VERSION_CODENAME-backports" trixie-backports | sort -u); do
			echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] ${from:-http://deb.debian.org/debian} $suite main"
		done > "$tmp/sources.list"
		cat > "$tmp/apt.conf" <<-X
			Dir::Etc::SourceList "$tmp/sources.list";
			Dir::Etc::SourceParts "-";
			Dir::State::Lists "$tmp/lists";
			Dir::Cache "$tmp/cache";
			APT::Sandbox::User "$(id -un)";
			Acquire::Languages "none";
		X
		export APT_CONFIG="$tmp/apt.conf"
		apt-get -qq update >&2 || die "missing: Go $wanted or later; the archive of this machine does not answer (see above)"
		pkg=$(packaged)
	fi
	if [ -z "$pkg" ]; then # Go from 1.21 on fetches the toolchain that go.mod names
		installed golang-go || install golang-go || exit 3
		go_ok /usr/bin/go 1.21 || die "missing: Go $wanted or later (https://go.dev/dl); this distribution has none"
		echo /usr/bin/go
		return
	fi
	note "fetching Go ($pkg, about 45 MB)"
	(cd "$tmp" && apt-get -qq download "$pkg" "${pkg%-go}-src" >&2) || die "missing: Go $wanted or later; $pkg could not be fetched (see above)"
	v=${pkg#golang-}; v=${v%-go}
	rm -rf "$cache"; mkdir -p "$cache"
	for d in "$tmp"/*.deb; do dpkg -x "$d" "$cache" || die "no room for Go in $cache: it takes 270 MB"; done
	ln -s "usr/lib/go-$v/bin" "$cache/bin"
	go_ok "$cache/bin/go" "$wanted" || die "$pkg in $cache does not run on this machine"
	echo "$cache/bin/go"
}

# ready prints the path of a Go that is here and new enough.
ready() {
	for g in "${GO:-go}" /usr/local/go/bin/go /usr/lib/go-"$wanted"/bin/go "$cache/bin/go"; do
		if go_ok "$g" "$wanted"; then command -v "$g"; return; fi
	done
	return 1
}

find_go() {
	ready && return
	for g in "${GO:-go}" /usr/local/go/bin/go; do
		if go_ok "$g" 1.21; then
			note "$g is older than $wanted: it fetches the Go that go.mod names (75 MB)"
			command -v "$g"; return
		fi
	done
	unpack_go
}

plan() {
	if g=$(ready); then
		[ -x homenode ] || note "building ./homenode with $g: a minute on 2 CPUs the first time, 0.3 GB in ~/.cache/go-build and ~/go"
	else
		note "fetching Go and building ./homenode: a minute on 2 CPUs; 60 MB to download; 0.8 GB of disk in $cache, ~/.cache/go-build and ~/go. Nothing is installed into the system."
	fi
}

missing=
for thing in "$@"; do
	case $thing in
	go) find_go ;;
	plan) plan ;;
	test) note "make test: about 10 minutes on 2 CPUs; installs what is missing of gcc, libc6-dev, hwloc-nox, dbus-daemon, libvirt0, libxml2-utils, qemu-user, gpg, gpg-agent, rpm (170 MB); 2 GB of disk in ~/.cache/go-build and ~/go" ;;
	*) installed "$thing" || missing="$missing $thing" ;;
	esac
done
# shellcheck disable=SC2086 # names of packages
[ -z "$missing" ] || install $missing
