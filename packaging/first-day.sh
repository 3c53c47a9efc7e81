#!/usr/bin/env bash
# first-day.sh SUITE WHO [SECONDS]: README's two commands in a bare Debian, by hand, as a
# newcomer has it: WHO is root, sudo (may install) or plain (may not). `make test` is ended
# after SECONDS, 60 unless told; 0 leaves it out. Says what was printed and how long it took.
# SOURCE= is the repository that is cloned, this one unless told; HOMENODE_RELEASES= is the folder
# or address with releases, as scripts/released.sh takes it (SOURCE must have the key).
set -euo pipefail
cd "$(dirname "$0")/.."
. packaging/root.sh
alone bash "$0" "$@"
suite=$1 who=$2 limit=${3:-60}
first='^(watching every|One NUMA node)' # what the first screen ends with, or says
dir=$(mktemp -d /var/tmp/homenode-first.XXXXXX)
trap 'ended "$dir"' EXIT
bare "$suite" "$dir"
need="git make ca-certificates"
[ "$who" != sudo ] || need="$need sudo"
inside "$dir" sh -c "apt-get -qq update && apt-get -qq -y install --no-install-recommends $need" >/dev/null 2>&1 || skip "the archive does not answer"
# This machine's own certificates and Go settings: the way to the network.
if [ -e /etc/ssl/certs/ca-certificates.crt ]; then cp -L /etc/ssl/certs/ca-certificates.crt "$dir/etc/ssl/certs/"; fi
user=root home=/root
if [ "$who" != root ]; then
	user=user home=/home/user
	inside "$dir" useradd -m -s /bin/bash user
	[ "$who" != sudo ] || echo 'user ALL=(ALL) NOPASSWD: ALL' >"$dir/etc/sudoers.d/user"
fi
git clone -q "${SOURCE:-.}" "$dir$home/homenode"
releases=${HOMENODE_RELEASES-}
inside "$dir" chown -R "$user" "$home"

# as SECONDS COMMAND runs it at a terminal of 80 columns in the clone. Ctrl-C is typed
# three seconds after homenode says that it watches, or when the time is up.
as() {
	local log=$dir/tmp/log begun
	: >"$log"
	begun=$(date +%s%N)
	(
		for _ in $(seq $(($1 * 5))); do
			sleep 0.2
			grep -aqE "$first" "$log" 2>/dev/null && { echo "$(((  $(date +%s%N) - begun) / 100000000))" >"$dir/tmp/first"; break; }
			[ ! -e "$dir/tmp/done" ] || break
		done
		sleep 3
		printf '\003'
		sleep 2
	) | inside "$dir" su "$user" -c "export SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt ${releases:+HOMENODE_RELEASES='$releases'}; cd $home/homenode && script -qefc '$2' /dev/null; echo \"exit status \$?\"; touch /tmp/done" >"$log" 2>&1 || true
	rm -f "$dir/tmp/done"
	# Lines that the terminal writes over are shown as they end.
	sed 's/\r*$//; s/.*\r//; s/\x1b\[[0-9;?]*[A-Za-z]//g; /^$/d' "$log" | cut -c 1-160
}

echo "### $suite, $who${releases:+, with a released binary} ($(nproc) CPUs, load $(cut -d' ' -f1-3 /proc/loadavg))"
before=$(du -smx "$dir" | cut -f1)
as 560 'make run'
if [ -e "$dir/tmp/first" ]; then
	t=$(cat "$dir/tmp/first")
	echo "(first screen after $((t / 10)).$((t % 10)) s; $(($(du -smx "$dir" | cut -f1) - before)) MB more on the disk)"
fi
if [ "$limit" != 0 ]; then
	as "$limit" 'make test' | tail -n 15
fi
