#!/bin/sh
# notices.sh [MODULE PACKAGE]: writes the licences and notices of every module that is linked
# into homenode, or into another program of this source: their terms ask for that where the
# binary is given on.
set -eu
export LC_ALL=C # one order of names in every language
go=${GO:-go}
"$go" -C "${1:-.}" list -deps -f '{{with .Module}}{{if not .Main}}{{.Path}} {{.Version}} {{.Dir}}{{end}}{{end}}' "${2:-./cmd/homenode}" | grep -v '^github.com/homenode/homenode ' | sort -u |
while read -r path version dir; do
	found=
	for f in "$dir"/[Ll][Ii][Cc][Ee][NnCc][SsCc][Ee]* "$dir"/[Cc][Oo][Pp][Yy][Ii][Nn][Gg]* "$dir"/[Nn][Oo][Tt][Ii][Cc][Ee]*; do
		[ -f "$f" ] || continue
		case $f in *.go) continue ;; esac
		found=1
		printf '== %s %s: %s\n\n' "$path" "$version" "$(basename "$f")"
		cat "$f"
		printf '\n'
	done
	[ -n "$found" ] || { echo "no licence found in $dir ($path)" >&2; exit 1; }
done
# The scheduler that runs in the kernel is not under homenode's own licence.
if "$go" -C "${1:-.}" list -deps "${2:-./cmd/homenode}" | grep -q '/homenode/host/scx$'; then
	printf '== host/scx/bpf, source in https://github.com/homenode/homenode: GPL-2.0\n\n'
	cat "$(dirname "$0")/../host/scx/bpf/LICENSE"
fi
