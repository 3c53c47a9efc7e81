#!/usr/bin/env bash
# again.sh DIST: builds what `make dist` wrote once more as somebody else would, from a clone
# in another folder: another home, user, language, time zone and umask, and settings of Go
# that a release does not follow. The bytes must be the same. What is compiled is taken from
# the build cache, in whose keys is all that the compiler was given; FRESH=1 compiles again.
set -euo pipefail
cd "$(dirname "$0")/.."
dist=$(realpath "$1")
case $(sh scripts/version.sh) in
*dirty* | *unknown) echo "skipped: built again, for the working tree has changes that are not committed" && exit ;;
esac
go=$(sh scripts/need.sh go)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/home" "$work/bin"
ln -s "$(realpath "$go")" "$work/bin/go"
# A language with other characters and another order than C, where this machine can make one.
localedef -i en_US -f ISO-8859-1 "$work/en_US.ISO-8859-1" >/dev/null 2>&1 && language=en_US.ISO-8859-1 || language=C
printf '[log]\n\tdate = relative\n[core]\n\tabbrev = 20\n[safe]\n\tdirectory = *\n' >"$work/home/.gitconfig"
cache=$("$go" env GOCACHE)
[ -z "${FRESH:-}" ] || cache=$work/cache
umask 077
# shellcheck disable=SC2046 # each is one word
other() {
	env -i PATH="$work/bin:$PATH" HOME="$work/home" USER=somebody TERM=dumb LOCPATH="$work" LC_ALL=$language TZ=Asia/Tokyo \
		GOCACHE="$cache" GOMODCACHE="$("$go" env GOMODCACHE)" GOFLAGS=-tags=other GOAMD64=v3 \
		$(env | grep -E '^(GOPROXY|GONOSUMDB|GOSUMDB|GOTOOLCHAIN|SSL_CERT_FILE|SSL_CERT_DIR|[a-zA-Z]*_proxy|[A-Z]*_PROXY)=' || true) "$@"
}
git clone -q . "$work/else/where"
# The same architectures, and the image for Kubernetes where there is one.
architectures=$(for f in "$dist"/*.deb; do f=${f##*_} && echo "${f%.deb}"; done)
kube=$(find "$dist" -name 'homenode-kube-*-oci.tar' | head -n 1)
other make -C "$work/else/where" dist ARCH="${architectures//$'\n'/ }" KUBE="${kube:+1}" >"$work/log" 2>&1 || { tail "$work/log" && exit 1; }
diff -rq "$dist" "$work/else/where/dist" || {
	mkdir "$work"/{first,again}
	tar -xzf "$dist"/*-linux-amd64.tar.gz -C "$work/first"
	tar -xzf "$work/else/where/dist"/*-linux-amd64.tar.gz -C "$work/again"
	diff -r "$work"/{first,again} | head -n 20
	echo "FAIL built twice, not the same bytes"
	exit 1
}
echo "ok   built twice in different folders, the same bytes${kube:+, the image for Kubernetes too}"
