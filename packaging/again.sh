#!/usr/bin/env bash
# again.sh DIST: builds what `make dist` wrote once more from a clone in another folder,
# with another time zone and umask and an empty build cache: the bytes must be the same.
set -euo pipefail
cd "$(dirname "$0")/.."
dist=$(realpath "$1")
case $(sh scripts/version.sh) in
*dirty* | *unknown) echo "skipped: built again, for the working tree has changes that are not committed" && exit ;;
esac
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
git clone -q . "$work/else/where"
(cd "$work/else/where" && umask 077 && TZ=Asia/Tokyo GOCACHE=$work/cache make dist >"$work/log" 2>&1) || { tail "$work/log" && exit 1; }
diff -r "$dist" "$work/else/where/dist" || { echo "FAIL built twice, not the same bytes" && exit 1; }
echo "ok   built twice in different folders, the same bytes"
