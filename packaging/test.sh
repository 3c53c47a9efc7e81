#!/usr/bin/env bash
# test.sh DIST: what `make dist` wrote, installed and removed in bare Debian 12 and 13, as
# deb and as rpm. What is on the disk afterwards must be what was before; what homenode
# set meanwhile must be undone. Skips what this machine cannot do, and says so.
set -euo pipefail
cd "$(dirname "$0")/.."
. packaging/root.sh
alone bash "$0" "$@"
dist=$(realpath "$1")
arch=$(dpkg --print-architecture)
work=$(mktemp -d /var/tmp/homenode-packages.XXXXXX)
trap 'ended "$work"' EXIT

# kept SYSTEM checks that nothing but the packages' own records has changed since before.
kept() {
	state "$1" | diff "$work/before" - >"$work/diff" || { cat "$work/diff"; fail "$2: left behind, or gone"; }
	ok "$2: nothing left behind"
}

# enforces SYSTEM: a process that homenode gives a CPU of its own and that has it still
# after kill -9 of the daemon; sets pid.
enforces() {
	cat >"$1/etc/homenode.yaml" <<-X
		mode: enforce
		balance: {enabled: false}
		workloads:
		  - {match: "walker", class: dedicated, cpus: 1}
	X
	cp "$1/bin/sh" "$1/tmp/walker"
	EXEC=exec inside "$1" /tmp/walker -c 'while :; do :; done' &
	pid=$!
	was=$(taskset -cp $pid | sed 's/.*: //')
	EXEC=exec inside "$1" homenode daemon >"$work/daemon.log" 2>&1 &
	local daemon=$! i
	for i in $(seq 120); do
		[ "$(taskset -cp $pid | sed 's/.*: //')" = "$was" ] || break
		sleep 0.5
	done
	kill -9 $daemon
	wait $daemon 2>/dev/null || true
	[ "$(taskset -cp $pid | sed 's/.*: //')" != "$was" ] || { cat "$work/daemon.log"; fail "the daemon gave no CPUs"; }
}

# undone checks that the process of enforces has its CPUs back.
undone() {
	[ "$(taskset -cp $pid | sed 's/.*: //')" = "$was" ] || fail "$1: CPUs of a process are as homenode set them"
	kill $pid
	wait $pid 2>/dev/null || true
	ok "$1: what homenode set is undone"
}

# works SYSTEM: what was installed is whole and starts nothing.
works() {
	local d=$1
	[ "$(inside "$d" homenode version)" = "$version" ] || fail "another version than $version"
	inside "$d" homenode status >/dev/null || fail "homenode status"
	[ ! -e "$d/var/lib/homenode" ] && [ ! -e "$d/etc/systemd/system/multi-user.target.wants/homenode.service" ] || fail "something was started or enabled"
	grep -q '^ExecStart=/usr/bin/homenode' "$d/usr/lib/systemd/system/homenode.service" || fail "the unit starts another program"
	inside "$d" bash -n /usr/share/bash-completion/completions/homenode || fail "completion for bash"
	for f in /usr/share/fish/vendor_completions.d/homenode.fish /usr/share/man/man5/homenode.yaml.5.gz /usr/share/man/man1/homenode-run.1.gz /usr/share/doc/homenode/NOTICES \
		/usr/share/homenode/prometheus/homenode.{rules,scrape}.yml /usr/share/homenode/grafana/homenode.json; do
		[ -s "$d$f" ] || fail "no $f"
	done
}

deb=$(ls "$dist"/homenode_*_"$arch".deb)
version=$(dpkg-deb -f "$deb" Version)
version=${version%-1}

for suite in bookworm trixie; do
	(
		d=$work/$suite
		bare "$suite" "$d"
		state "$d" >"$work/before"
		cp "$deb" "$d/tmp/h.deb"
		inside "$d" dpkg -i /tmp/h.deb >"$work/log" 2>&1 || { cat "$work/log"; fail "$suite: install"; }
		grep -q 'nothing runs yet' "$work/log" || fail "$suite: the installation does not say that nothing runs"
		works "$d"
		inside "$d" dpkg -V homenode || fail "$suite: files differ from the package"
		ok "$suite: deb installed, $(du -sk "$d/usr/bin/homenode" | cut -f1) KiB"
		inside "$d" dpkg -r homenode >"$work/log" 2>&1 || { cat "$work/log"; fail "$suite: remove what never ran"; }
		inside "$d" dpkg -P homenode >"$work/log" 2>&1
		kept "$d" "$suite: deb that never ran, purged"

		inside "$d" dpkg -i /tmp/h.deb >/dev/null 2>&1
		enforces "$d"
		inside "$d" dpkg -i --force-confold /tmp/h.deb >"$work/log" 2>&1 || { cat "$work/log"; fail "$suite: upgrade"; }
		grep -q 'mode: enforce' "$d/etc/homenode.yaml" || fail "$suite: an upgrade changed the configuration"
		[ "$(taskset -cp $pid | sed 's/.*: //')" != "$was" ] || fail "$suite: an upgrade undid what homenode set"
		# An undo that fails keeps the package.
		mv "$d/usr/bin/homenode" "$d/usr/bin/homenode.kept"
		printf '#!/bin/sh\nexit 1\n' >"$d/usr/bin/homenode"
		chmod 755 "$d/usr/bin/homenode"
		if inside "$d" dpkg -r homenode >"$work/log" 2>&1; then fail "$suite: removed although undo failed"; fi
		grep -q 'could not be restored' "$work/log" || { cat "$work/log"; fail "$suite: no word of why"; }
		mv "$d/usr/bin/homenode.kept" "$d/usr/bin/homenode"
		inside "$d" dpkg -r homenode >"$work/log" 2>&1 || { cat "$work/log"; fail "$suite: remove"; }
		undone "$suite: deb removed"
		[ -e "$d/etc/homenode.yaml" ] && [ -e "$d/var/lib/homenode" ] || fail "$suite: remove took what purge takes"
		inside "$d" dpkg -P homenode >"$work/log" 2>&1
		rm "$d/tmp/walker"
		kept "$d" "$suite: deb that enforced, purged"
	)
done

(
	d=$work/rpm
	bare trixie "$d"
	inside "$d" sh -c 'apt-get -qq update && apt-get -qq -y install --no-install-recommends rpm' >/dev/null 2>&1 || skip "rpm cannot be fetched"
	inside "$d" rpm --initdb
	state "$d" >"$work/before"
	cp "$dist"/homenode-*."$(uname -m)".rpm "$d/tmp/h.rpm"
	inside "$d" rpm -i --nodeps /tmp/h.rpm >"$work/log" 2>&1 || { cat "$work/log"; fail "rpm: install"; }
	works "$d"
	inside "$d" rpm -V --nodeps homenode || fail "rpm: files differ from the package"
	inside "$d" rpm -qc homenode | grep -qx /etc/homenode.yaml || fail "rpm: the configuration is not marked"
	inside "$d" rpm -q --changelog homenode | grep . >/dev/null || fail "rpm: no changelog"
	ok "rpm installed: $(inside "$d" rpm -q homenode)"
	enforces "$d"
	inside "$d" rpm -U --force --nodeps /tmp/h.rpm >"$work/log" 2>&1 || { cat "$work/log"; fail "rpm: upgrade"; }
	grep -q 'mode: enforce' "$d/etc/homenode.yaml" || fail "rpm: an upgrade changed the configuration"
	inside "$d" rpm -e homenode >"$work/log" 2>&1 || { cat "$work/log"; fail "rpm: erase"; }
	undone "rpm erased"
	rm -f "$d/tmp/walker" "$d/etc/homenode.yaml.rpmsave" # changed by hand, so rpm keeps it
	kept "$d" "rpm erased"
	mkdir "$d/opt/h" && tar -xzf "$dist"/homenode-*-linux-"$arch".tar.gz -C "$d/opt/h" --strip-components 1
	[ "$(inside "$d" /opt/h/bin/homenode version)" = "$version" ] || fail "archive: another version"
	ok "archive unpacked and run"
)
