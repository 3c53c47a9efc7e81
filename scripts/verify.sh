#!/bin/sh
# verify.sh FILE SIGNATURE KEY… checks an OpenPGP signature of FILE by one of the public keys
# (armored, as `gpg --armor --export` writes them). Exit status 0: good, 1: not good, 3: this
# machine has no program that checks. Debian 12 and Ubuntu have gpgv, Debian 13 has sqv: apt needs them.
set -eu
file=$1 signature=$2
shift 2
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
if command -v gpgv >/dev/null 2>&1; then
	for key in "$@"; do # gpgv reads keys without armor
		sed -e '1,/^$/d' -e '/^=/d' -e '/^-----END/d' "$key" | base64 -d
	done >"$tmp/keys"
	gpgv --keyring "$tmp/keys" "$signature" "$file" >"$tmp/said" 2>&1 || exit 1
elif command -v sqv >/dev/null 2>&1; then
	for key in "$@"; do
		sqv --keyring "$key" "$signature" "$file" >"$tmp/said" 2>&1 && exit
	done
	exit 1
else
	exit 3
fi
