#!/bin/sh
# need.sh THING… installs what is missing, and only that, from the machine's own
# Debian or Ubuntu archive. Nothing that is installed is upgraded. Things are
# package names, or "go" for a Go that can build this module.
set -eu

note() { echo "need.sh: $*" >&2; }
as_root() {
	if [ "$(id -u)" = 0 ]; then "$@"
	elif command -v sudo >/dev/null 2>&1; then sudo "$@"
	else note "run as root, or install by hand: $*"; exit 3; fi
}
updated=no
install() {
	if [ $updated = no ]; then as_root apt-get -qq update; updated=yes; fi
	as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq -y install --no-upgrade --no-remove --no-install-recommends "$@" >&2
}
installed() { dpkg-query -W -f '${Status}' "$1" 2>/dev/null | grep -q 'ok installed'; }

# go_ok GO: 1.21 and later fetch the toolchain that go.mod names by themselves.
go_ok() {
	v=$("$1" env GOVERSION 2>/dev/null) || return 1
	v=${v#go1.}; v=${v%%[.r]*}
	[ "${v:-0}" -ge 21 ]
}

# mirror_of SUITE is the archive that this machine takes the suite from, by its
# own sources, one-line or deb822.
mirror_of() {
	{
		cat /etc/apt/sources.list /etc/apt/sources.list.d/*.list 2>/dev/null |
			awk '$1 == "deb" { sub(/\[[^]]*\] */, ""); print $2, $3 }'
		for f in /etc/apt/sources.list.d/*.sources; do
			[ -e "$f" ] && awk '/^URIs:/ { uri = $2 } /^Suites:/ { for (i = 2; i <= NF; i++) print uri, $i }' "$f"
		done
	} | awk -v suite="$1" '$2 == suite { print $1; exit }'
}

# Debian 12 has Go 1.19. Its backports have a newer one; it is unpacked into the
# cache folder, beside the system and not into it.
go_from_backports() {
	dir=${XDG_CACHE_HOME:-$HOME/.cache}/homenode/go
	if [ ! -x "$dir/bin/go" ]; then
		. /etc/os-release
		suite=$VERSION_CODENAME-backports
		mirror=$(mirror_of "$VERSION_CODENAME")
		tmp=$(mktemp -d); mkdir -p "$tmp/lists/partial" "$tmp/cache/archives/partial"
		echo "deb [signed-by=/usr/share/keyrings/$ID-archive-keyring.gpg] $mirror $suite main" > "$tmp/sources.list"
		cat > "$tmp/apt.conf" <<-X
			Dir::Etc::SourceList "$tmp/sources.list";
			Dir::Etc::SourceParts "-";
			Dir::State::Lists "$tmp/lists";
			Dir::Cache "$tmp/cache";
			APT::Sandbox::User "$(id -un)";
		X
		export APT_CONFIG="$tmp/apt.conf"
		apt-get -qq update
		pkg=$(apt-cache depends golang-go | sed -n 's/.*Depends: \(golang-1[.0-9]*-go\)$/\1/p' | sort -V | tail -n 1)
		(cd "$tmp" && apt-get -qq download "$pkg" "${pkg%-go}-src")
		unset APT_CONFIG
		for d in "$tmp"/*.deb; do dpkg -x "$d" "$tmp/root"; done
		mkdir -p "$(dirname "$dir")"; rm -rf "$dir"
		# The package splits GOROOT over lib and share with links between them.
		v=${pkg#golang-}; v=${v%-go}
		cp -rL "$tmp/root/usr/lib/go-$v" "$dir" 2>/dev/null || cp -r "$tmp/root/usr/lib/go-$v" "$dir"
		cp -rn "$tmp/root/usr/share/go-$v/." "$dir/"
		rm -rf "$tmp"
	fi
	echo "$dir/bin/go"
}

find_go() {
	for g in "${GO:-go}" /usr/local/go/bin/go "${XDG_CACHE_HOME:-$HOME/.cache}/homenode/go/bin/go"; do
		if go_ok "$g"; then command -v "$g"; return; fi
	done
	installed golang-go || install golang-go
	if go_ok /usr/bin/go; then echo /usr/bin/go; return; fi
	go_from_backports
}

for thing in "$@"; do
	case $thing in
	go) find_go ;; # prints the path: the Makefile reads it
	hwloc-nox) command -v lstopo >/dev/null 2>&1 || command -v lstopo-no-graphics >/dev/null 2>&1 || install "$thing" ;;
	*) installed "$thing" || install "$thing" ;;
	esac
done
