#!/bin/sh
# version.sh prints the version of this checkout in a form that dpkg and rpm sort correctly.
# The file VERSION names the last release, such as 0.2.0. The commit with the tag v0.2.0 is
# that release. Any other commit is 0.2.0+git20261124.0939.1a2b3c4 (date and time of the
# commit in UTC), which sorts above 0.2.0, above earlier commits and below 0.2.1. A source
# archive without history is 0.2.0+source. A changed working tree ends in +dirty.
# A candidate, 0.3.0-rc1 in VERSION, sorts below 0.3.0: it becomes 0.3.0~rc1.
set -eu
cd "$(dirname "$0")/.."
# `su -c "make install"` in another user's clone: root, who runs make, trusts what is in it.
git() { command git -c safe.directory='*' "$@"; }
said=$(cat VERSION)
version=$(echo "$said" | sed 's/-/~/; s/-/./g')
commit=$(git rev-parse HEAD 2>/dev/null | cut -c 1-7)
[ -n "$commit" ] || { echo "$version+source"; exit; }
tagged=$(git rev-parse -q --verify "refs/tags/v$said^{commit}" 2>/dev/null || true)
if [ "$(git rev-parse HEAD)" != "$tagged" ]; then
	version=$version+git$(TZ=UTC git log -1 --date=format-local:%Y%m%d.%H%M --format=%cd).$commit
fi
git diff --quiet HEAD -- 2>/dev/null || version=$version+dirty
echo "$version"
