#!/bin/sh
# build.sh FOLDER builds the handbook as a site that needs no web server, and checks its links.
set -eu
out=$(realpath -m "$1")
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT

cd "$root"
# The same tree as the project's, so that relative links hold.
for f in README.md ARCHITECTURE.md CHANGELOG.md CONVENTIONS.md LICENSE docs bench/results; do
	mkdir -p "$stage/$(dirname "$f")"
	cp -R "$f" "$stage/$f"
done
for f in SECURITY.md CONTRIBUTING.md; do
	[ ! -e "$f" ] || cp "$f" "$stage/"
done
rm -rf "$stage/docs/man" "$stage/docs/topics" "$stage/docs"/*.go
mkdir -p "$stage/site"
cp "$here/extra.css" "$here/offline.js" "$stage/site/"
cp "$here/icon.svg" "$stage/docs/site-icon.svg"
SITE_STAGE=$stage SITE_OUT=$out mkdocs build --clean --strict --quiet -f "$here/mkdocs.yml"
echo "the handbook is in $out: open $out/index.html"
