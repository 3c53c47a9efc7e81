#!/usr/bin/env bash
# upgrade.sh REHEARSAL [SUITE…]: what packaging/rehearse.sh made, served by a web server and used
# by apt in bare Debian 12 and 13 and Ubuntu 24.04 with systemd: install 0.1.0, enforce, upgrade while it enforces,
# remove, purge. What is on the disk afterwards must be what was before; what homenode set must be undone.
set -euo pipefail
cd "$(dirname "$0")/.."
. packaging/root.sh
alone bash "$0" "$@"
made=$(realpath "$1")
shift
[ $# != 0 ] || set -- bookworm trixie noble
version=$(cat VERSION)
work=$(mktemp -d /var/tmp/homenode-upgrade.XXXXXX)
trap 'ended "$work"' EXIT

ln -s "$made/before" "$work/site"
serve "$work" "$work/server.log"

# quietly COMMAND… shows what a command printed only if it fails.
quietly() { "$@" >"$work/log" 2>&1 || { cat "$work/log"; fail "$*"; }; }

# cpus prints the CPU set of the walker's process.
cpus() { within sh -c 'taskset -cp $(systemctl show -P MainPID walker)' | sed 's/.*: //'; }

for suite in "$@"; do
	(
		d=$work/$suite
		init='' part=''
		trap 'halt' EXIT
		MADE=serviced bare "$suite" "$d"
		boot "$d"
		install -d "$d/etc/apt/keyrings"
		cp "$made/release/homenode.asc" "$d/etc/apt/keyrings/"
		cat >"$d/etc/apt/sources.list.d/homenode.sources" <<-S
			Types: deb
			URIs: http://127.0.0.1:$port/site/apt
			Suites: stable
			Components: main
			Signed-By: /etc/apt/keyrings/homenode.asc
		S
		state "$d" >"$work/$suite.before"

		ln -sfn "$made/before" "$work/site"
		quietly within apt-get update --error-on=any
		quietly within apt-get -y install homenode
		[ "$(within homenode version)" = 0.1.0 ] || fail "$suite: $(within homenode version) was installed"
		! within systemctl -q is-enabled homenode || fail "$suite: the installation enabled the service"
		ok "$suite: apt install homenode: 0.1.0, nothing runs"

		cat >"$d/etc/homenode.yaml" <<-C
			mode: enforce
			balance: {enabled: false}
			workloads:
			  - {match: "walker", class: dedicated, cpus: 1}
		C
		cp "$d/etc/homenode.yaml" "$work/$suite.yaml"
		cp "$d/bin/sh" "$d/usr/local/bin/walker" # with cgroup v1 beside it homenode sees processes, by the name of their program
		quietly within systemd-run --unit walker /usr/local/bin/walker -c 'while :; do :; done'
		was=$(cpus)
		quietly within systemctl enable --now homenode
		for _ in $(seq 120); do
			[ "$(cpus)" = "$was" ] || break
			sleep 0.5
		done
		got=$(cpus)
		[ "$got" != "$was" ] || { within homenode status; within homenode explain walker; fail "$suite: the daemon gave no CPUs"; }
		daemon=$(within systemctl show -P MainPID homenode)
		ok "$suite: 0.1.0 enforces: CPUs $was → $got"

		ln -sfn "$made/release" "$work/site"
		quietly within apt-get update --error-on=any
		# What the walker has is read all the time from here on.
		(while cpus >>"$work/$suite.cpus" 2>/dev/null; do sleep 0.05; done) &
		watcher=$!
		quietly within apt-get -y -o Dpkg::Options::=--force-confold upgrade
		for _ in $(seq 60); do
			[ "$(within homenode status --json 2>/dev/null | grep -c "\"version\": *\"$version\"")" = 0 ] || break
			sleep 0.5
		done
		sleep 5 # two scans of the new daemon
		kill $watcher
		[ "$(within homenode version)" = "$version" ] || fail "$suite: $(within homenode version) after the upgrade"
		within systemctl -q is-active homenode || { within systemctl status homenode; fail "$suite: the daemon does not run after the upgrade"; }
		[ "$(within systemctl show -P MainPID homenode)" != "$daemon" ] || fail "$suite: the daemon was not restarted"
		cmp "$d/etc/homenode.yaml" "$work/$suite.yaml" || fail "$suite: the upgrade changed the configuration"
		[ "$(sort -u "$work/$suite.cpus")" = "$got" ] || fail "$suite: CPUs during the upgrade: $(sort "$work/$suite.cpus" | uniq -c)"
		case $(within homenode status) in
		"homenode $version  enforce mode"*) ;;
		*) fail "$suite: $(within homenode status)" ;;
		esac
		ok "$suite: apt upgrade to $version while it enforced: the daemon is the new one, the walker had CPUs $got all the time ($(wc -l <"$work/$suite.cpus") readings)"

		quietly within apt-get -y remove homenode
		cp "$work/log" "$work/$suite.remove"
		[ "$(cpus)" = "$was" ] || fail "$suite: CPUs $(cpus) after the removal, not $was"
		! within systemctl -q is-active homenode || fail "$suite: the daemon runs after the removal"
		[ -e "$d/etc/homenode.yaml" ] && [ -e "$d/var/lib/homenode" ] || fail "$suite: remove took what purge takes"
		ok "$suite: apt remove: CPUs $was again"
		grep -iE 'homenode|restored|walker' "$work/$suite.remove" | grep -vE '^(The following|  homenode|Removing|Reading|After)' | sed 's/^/     | /' || true
		quietly within apt-get -y purge homenode
		quietly within systemctl stop walker
		rm "$d/usr/local/bin/walker"
		state "$d" | diff "$work/$suite.before" - >"$work/diff" || { cat "$work/diff"; fail "$suite: left behind, or gone"; }
		ok "$suite: apt purge: nothing left behind"
	)
done
