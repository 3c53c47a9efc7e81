#!/usr/bin/env bash
# rehearse.sh OUT: a release of this commit as the releaser makes it, in a clone and with a key
# made for it, into OUT:
#
#   OUT/source    the clone: number and date in CHANGELOG.md, the key in packaging/keys, tag
#   OUT/release   what a web server would give out
#   OUT/before    the same with 0.1.0 alone, built from its own commit: what an upgrade starts from
#
# What is there is kept: the steps can be tried one by one. KUBE is part of it: minutes.
set -euo pipefail
cd "$(dirname "$0")/.."
out=$(realpath -m "$1")
mkdir -p "$out"
version=$(cat VERSION)
older=a1a539ab7555b8a997b7ab14d507f1fd223e41b1 # the last commit of 0.1.0, which has no tag

GNUPGHOME=$(mktemp -d)
export GNUPGHOME
trap 'gpgconf --kill all; rm -rf "$GNUPGHOME"' EXIT
gpg --batch --quiet --passphrase '' --quick-gen-key 'Rehearsal <rehearsal@homenode.invalid>' ed25519 sign never

if [ ! -e "$out/release/$version" ]; then
	rm -rf "$out/source" "$out/release"
	git clone -q . "$out/source"
	cd "$out/source"
	git config user.name Rehearsal
	git config user.email rehearsal@homenode.invalid
	sed -i "s/^## Unreleased$/## $version ($(date -u +%F))/" CHANGELOG.md
	gpg --armor --export --export-options export-minimal >packaging/keys/rehearsal.asc
	git add -A
	git commit -q -m "release $version"
	git tag "v${version/\~/-}"
	make release RELEASE="$out/release"
	cd - >/dev/null
fi
if [ ! -e "$out/before/apt/dists" ]; then
	rm -rf "$out/before" "$out/older"
	git clone -q . "$out/older"
	git -C "$out/older" checkout -q "$older"
	# Its own Makefile has no ARCH: both are made.
	make -C "$out/older" dist VERSION=0.1.0 >"$out/older.log" 2>&1 || { tail "$out/older.log"; exit 1; }
	mkdir -p "$out/before/apt/pool/stable" "$out/before/yum/stable"
	cp "$out/older/dist"/*.deb "$out/before/apt/pool/stable/"
	cp "$out/older/dist"/*.rpm "$out/before/yum/stable/"
	bash packaging/release.sh trees "$out/before"
	# The release before stays in the repository beside the new one.
	cp "$out/older/dist"/*.deb "$out/release/apt/pool/stable/"
	cp "$out/older/dist"/*.rpm "$out/release/yum/stable/"
	bash packaging/release.sh trees "$out/release"
	rm -rf "$out/older"
fi
