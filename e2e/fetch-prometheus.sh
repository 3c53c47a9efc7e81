#!/usr/bin/env bash
# fetch-prometheus.sh: prometheus and promtool of the machine's own archive, unpacked and not
# installed, so that no service starts. Prints the folder they are in; nothing where there are
# none to be had, and says so. Homenode's alert rules and dashboard are tested with them.
set -euo pipefail
cd "$(dirname "$0")/.."

. e2e/apt.sh
none() { echo "skipped: tests of the alert rules and the dashboard: $*" >&2; exit 0; }
if command -v prometheus >/dev/null && command -v promtool >/dev/null; then
	dirname "$(command -v prometheus)"
	exit 0
fi
cache=$(cache_folder)
exec 9>"$cache/lock.prometheus"
flock 9
out=$cache/prometheus
if [ -s "$out/SHA256SUMS" ] && (cd "$out" && sha256sum --quiet -c SHA256SUMS >/dev/null 2>&1); then
	echo "$out"
	exit 0
fi
dir=$(mktemp -d "$cache/prometheus.XXXXXX")
trap 'rm -rf "$dir"' EXIT
say prometheus
get() { (cd "$dir" && timeout 60 apt-get -o APT::Sandbox::User=root download -qq prometheus) >&2; }
get || { [ "$(id -u)" = 0 ] && timeout 60 apt-get -qq update >&2 && get; } ||
	none "no prometheus from this machine's archive"
dpkg -x "$dir"/prometheus_*.deb "$dir/tree"
mkdir "$dir/out"
mv "$dir/tree/usr/bin/prometheus" "$dir/tree/usr/bin/promtool" "$dir/out"
for p in prometheus promtool; do
	"$dir/out/$p" --version >/dev/null 2>&1 || none "Debian's $p does not run on this machine"
done
(cd "$dir/out" && sha256sum prometheus promtool >SHA256SUMS)
rm -rf "$out"
mv "$dir/out" "$out"
echo "$out"
