#!/bin/sh
# released.sh puts the released binary for this machine at ./homenode, once its signature and
# checksum are checked, so that `make run` does not have to build. Exit status 0: it is there.
# 1: build; a line says why, unless the user builds here anyway (changed files, own commits,
# a ./homenode that was built, BUILD=1).
#
#   HOMENODE_RELEASES      address or folder to look in, instead of those in RELEASES and ./release; empty: none
#   HOMENODE_RELEASE_KEY   public key that must have signed, instead of those in packaging/keys
set -u
cd "$(dirname "$0")/.." || exit 1
note() { echo "$*" >&2; }
build() {
	[ -z "${1:-}" ] || note "no released binary: $1; building"
	exit 1
}
git() { command git -c safe.directory='*' "$@" 2>/dev/null; }

[ -z "${BUILD:-}" ] || build
case $(uname -s)/$(uname -m) in
Linux/x86_64) arch=amd64 ;;
Linux/aarch64) arch=arm64 ;;
*) build "there is none for $(uname -s) on $(uname -m)" ;;
esac
version=$(sed 's/-/~/' VERSION)
name=homenode-$version-linux-$arch
cache=${XDG_CACHE_HOME:-$HOME/.cache}/homenode/releases/$name

# as_cloned: does the checkout have nothing of the user's own? An archive without git has not.
as_cloned() {
	git rev-parse HEAD >/dev/null || return 0
	git diff --quiet HEAD -- || return 1
	[ -z "$(git ls-files --others --exclude-standard -- '*.go')" ] || return 1
	[ "$(git rev-parse HEAD)" != "$(git rev-parse -q --verify "refs/tags/v$(cat VERSION)^{commit}")" ] || return 0
	# The branch that a clone begins with: another one that was pushed has somebody's own commits.
	git rev-parse -q --verify refs/remotes/origin/HEAD >/dev/null && git merge-base --is-ancestor HEAD refs/remotes/origin/HEAD
}
as_cloned || build
if [ -e homenode ]; then # from an earlier call, or built
	sum=$(sha256sum homenode | cut -d' ' -f1)
	if [ "$sum" = "$(cat "$cache/binary" 2>/dev/null)" ]; then exit 0; fi
	# A released one of another version gives way to this version's; one that the user built stays.
	cat "${cache%/*}"/*/binary 2>/dev/null | grep -qx "$sum" || build
fi

if [ -n "${HOMENODE_RELEASES+set}" ]; then
	places=$HOMENODE_RELEASES
else
	places=$(sed '/^#/d; /^[[:space:]]*$/d' RELEASES 2>/dev/null)
	[ ! -d release ] || places="$places
release"
fi
[ -n "$(echo "$places" | tr -d '[:space:]')" ] || build "RELEASES names no address"
if [ -n "${HOMENODE_RELEASE_KEY:-}" ]; then
	set -- "$HOMENODE_RELEASE_KEY"
	[ -r "$1" ] || build "the key $1 cannot be read"
else
	set -- packaging/keys/*.asc
	[ -e "$1" ] || build "packaging/keys has no key to check it with"
fi

# get FROM TO copies or downloads a file. A bare Debian has neither curl nor wget, but apt.
get() {
	case $1 in
	http://* | https://*)
		if command -v curl >/dev/null 2>&1; then
			curl -fsSL --connect-timeout 4 --speed-limit 10000 --speed-time 10 -o "$2" "$1" 2>/dev/null
		elif command -v wget >/dev/null 2>&1; then
			wget -q -T 4 -t 1 -O "$2" "$1"
		elif [ -x /usr/lib/apt/apt-helper ]; then
			/usr/lib/apt/apt-helper -qq -o Acquire::http::Timeout=4 -o Acquire::https::Timeout=4 -o Acquire::Retries=0 -o APT::Sandbox::User=root download-file "$1" "$2" >/dev/null 2>&1
		else
			return 1
		fi
		;;
	*) cp "${1#file://}" "$2" 2>/dev/null ;;
	esac
}

tmp=$(mktemp -d) || build
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' INT TERM

# from PLACE fetches the release into $tmp and checks it; why says what was wrong.
from() {
	rm -f "$tmp"/*
	for f in SHA256SUMS SHA256SUMS.asc; do
		get "$1/$version/$f" "$tmp/$f" || { why="$1 has no $version, or does not answer"; return 1; }
	done
	signed "$@" || return 1
	sum=$(awk -v f="$name.tar.gz" '$2 == f { print $1 }' "$tmp/SHA256SUMS")
	[ -n "$sum" ] || { why="$1 has no $version for $arch"; return 1; }
	note "fetching $name.tar.gz from $1"
	get "$1/$version/$name.tar.gz" "$tmp/$name.tar.gz" || { why="$1 did not give $name.tar.gz"; return 1; }
	echo "$sum  $tmp/$name.tar.gz" | sha256sum --status -c - || { why="$name.tar.gz from $1 does not have the checksum that was signed"; return 1; }
	tar -xzOf "$tmp/$name.tar.gz" "$name/bin/homenode" >"$tmp/homenode" && chmod 755 "$tmp/homenode" || { why="$name.tar.gz cannot be unpacked"; return 1; }
	[ "$("$tmp/homenode" version 2>/dev/null)" = "$version" ] || { why="$name does not run on this machine"; return 1; }
}

# signed PLACE KEY… checks the signature of the sums in $tmp.
signed() {
	at=$1
	shift
	sh scripts/verify.sh "$tmp/SHA256SUMS" "$tmp/SHA256SUMS.asc" "$@"
	case $? in
	0) return 0 ;;
	3) why="this machine has neither gpgv nor sqv to check it with" ;;
	*) why="the checksums at $at are not signed by a known key" ;;
	esac
	return 1
}

why=
for place in $places; do
	if from "$place" "$@"; then
		mkdir -p "$cache" && sha256sum "$tmp/homenode" | cut -d' ' -f1 >"$cache/binary" || build "no room in $cache"
		mv "$tmp/homenode" homenode
		note "homenode $version, released: signature and checksum are good."
		note "\`make build\` builds this checkout instead."
		exit 0
	fi
done
build "$why"
