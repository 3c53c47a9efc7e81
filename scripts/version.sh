#!/bin/sh
# version.sh prints the version of this checkout, in the form that dpkg and rpm order
# rightly: 0.1.0 at tag v0.1.0, 0.1.0+git5.1a2b3c4 five commits later, and
# 0.0.0~git20261122.1a2b3c4 where no tag is (date of the commit). A changed working tree
# ends in +dirty.
set -eu
cd "$(dirname "$0")/.."
# `su -c "make install"` in somebody's clone: who runs make trusts what is in it.
git() { command git -c safe.directory='*' "$@"; }
commit=$(git rev-parse HEAD 2>/dev/null | cut -c 1-7)
[ -n "$commit" ] || { echo 0.0.0~unknown; exit; } # an archive without history
dirty=
git diff --quiet HEAD -- 2>/dev/null || dirty=+dirty
if tag=$(git describe --tags --match 'v[0-9]*' --long --abbrev=7 2>/dev/null); then
	# v0.1.0-5-g1a2b3c4; a candidate, v0.2.0-rc1, sorts before its version.
	since=${tag%-g*}; since=${since##*-}
	v=${tag%-*-g*}; v=${v#v}; v=$(echo "$v" | sed 's/-/~/; s/-/./g')
	[ "$since" = 0 ] || v=$v+git$since.$commit
else
	v=0.0.0~git$(TZ=UTC git log -1 --date=format-local:%Y%m%d --format=%cd).$commit
fi
echo "$v$dirty"
