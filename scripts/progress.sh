#!/bin/sh
# progress.sh TOTAL shows on one line of a terminal what `go build -v` says on its
# standard input, and passes on what is no name of a package.
n=0
while IFS= read -r line; do
	case $line in
	'go: downloading '*) shown="downloading ${line#go: downloading }" ;;
	*[!A-Za-z0-9._/~-]* | '#'* | '') [ -t 2 ] && printf '\r\033[K' >&2; printf '%s\n' "$line" >&2; continue ;;
	*) n=$((n + 1)); shown="compiling $n of $1: $line" ;;
	esac
	[ -t 2 ] && printf '\r\033[K%.79s' "$shown" >&2
done
[ -t 2 ] && [ $n -gt 0 ] && printf '\r\033[K' >&2
exit 0
