#!/usr/bin/env bash
# test.sh REHEARSAL: the role on two bare Debian 12 with systemd, from the
# repository that packaging/rehearse.sh made. Ansible runs on this machine and reaches them by
# a program in place of ssh. HOSTS="web1:bookworm …" names others.
set -euo pipefail
cd "$(dirname "$0")/../.."
. packaging/root.sh
alone bash "$0" "$@"
made=$(realpath "$1")
hosts=${HOSTS:-web1:bookworm web2:bookworm}
work=$(mktemp -d /var/tmp/homenode-role.XXXXXX)
trap 'ended "$work"' EXIT

serve "$made/release" "$work/server.log"

names='' parts=''
for h in $hosts; do
	name=${h%%:*} d=$work/${h%%:*}
	MADE=serviced bare "${h##*:}" "$d"
	boot "$d"
	echo "$init" >"$work/$name.pid"
	names="$names $name" parts="$parts $part"
done
trap 'for name in $names; do init=$(cat "$work/$name.pid"); kill -9 $init 2>/dev/null || true; done; sleep 0.5; for part in $parts; do find "$part" -depth -type d -exec rmdir {} + 2>/dev/null || true; done; ended "$work"' EXIT

cat >"$work/ssh" <<S
#!/bin/bash
# … HOST COMMAND, as Ansible calls ssh.
exec nsenter -t "\$(cat "$work/\${@: -2:1}.pid")" -m -p -C -u -i env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 sh -c "\${@: -1}"
S
chmod 755 "$work/ssh"
{
	echo '[homenode]'
	for name in $names; do echo "$name"; done
} >"$work/inventory"
cat >"$work/ansible.cfg" <<C
[defaults]
roles_path = $PWD/integrations/ansible/roles
inventory = $work/inventory
local_tmp = $work/ansible
nocows = true
interpreter_python = /usr/bin/python3
retry_files_enabled = false
[ssh_connection]
ssh_executable = $work/ssh
ssh_args =
transfer_method = piped
pipelining = true
C
export ANSIBLE_CONFIG=$work/ansible.cfg ANSIBLE_HOME=$work/ansible LC_ALL=C.UTF-8
cat >"$work/site.yml" <<P
- hosts: homenode
  become: false
  serial: [1, "100%"]
  max_fail_percentage: 0
  vars:
    homenode_repository: http://127.0.0.1:$port
    homenode_key_file: $made/release/homenode.asc
  roles: [homenode]
P

# play WHAT ARG… runs the play; its output is in $work/out.
play() {
	local what=$1
	shift
	ansible-playbook "$work/site.yml" "$@" >"$work/out" 2>&1 || { cat "$work/out"; fail "$what"; }
}
# changed prints HOST=COUNT of each host.
changed() { sed -n 's/^\([a-z0-9]*\) *: ok=.*changed=\([0-9]*\).*/\1=\2/p' "$work/out" | tr '\n' ' '; }
# same WHAT ARG… runs the play once more: nothing may change.
same() {
	local what=$1
	shift
	play "$what again" "$@"
	! grep -q 'changed=[1-9]' "$work/out" || { cat "$work/out"; fail "$what again: $(changed)"; }
	ok "$what again: changed $(changed)"
}
on() {
	init=$(cat "$work/$1.pid")
	shift
	within "$@"
}
# modes prints HOST=MODE of each daemon.
modes() {
	local name said
	for name in $names; do
		said=$(on "$name" homenode status | sed -n '1s/.*  \([a-z]*\) mode.*/\1/p')
		echo -n "$name=$said "
	done
}
all() { for name in $names; do echo -n "$name=$1 "; done; }
first=${names# }
first=${first%% *}

ansible-playbook --syntax-check "$work/site.yml" integrations/ansible/site.yml >/dev/null || fail "syntax"

for name in $names; do state "$work/$name" | grep -v '^\./root/.ansible' >"$work/$name.before"; done
play "check mode on bare hosts" --check --diff
for name in $names; do state "$work/$name" | grep -v '^\./root/.ansible' | diff "$work/$name.before" - || fail "check mode changed $name"; done
ok "check mode on bare hosts: would change $(changed)and did not"

play install
[ "$(modes)" = "$(all observe)" ] || fail "modes: $(modes)"
ok "install: changed $(changed)modes $(modes)"
same install

play "enforce without a wait that is over" -e homenode_mode=enforce
[ "$(modes)" = "$(all observe)" ] || fail "modes: $(modes)"
grep -q 'This host observes first. Run the play again in 14[0-9][0-9] minutes' "$work/out" || { cat "$work/out"; fail "no word of the wait"; }
ok "enforce on the first day: $(modes); $(grep -o 'This host observes first.*minutes' "$work/out" | head -n 1)"

canary=(-e homenode_mode=enforce -e homenode_observe_for=1 -e "{\"homenode_canaries\": [\"$first\"]}")
play canary "${canary[@]}"
[ "$(modes)" = "$(all observe | sed "s/$first=observe/$first=enforce/")" ] || fail "modes: $(modes)"
ok "canary: changed $(changed)modes $(modes)"
same canary "${canary[@]}"

# The hosts share one kernel, so that one of them alone can enforce.
everywhere=(-e homenode_mode=enforce -e homenode_observe_for=1 -e '{"homenode_config": {"reserve": {"memory": "64MiB"}, "move": {"bandwidth": "128MiB"}}}' --limit "$first")
play "check mode" --check --diff "${everywhere[@]}"
grep -q '^+  bandwidth: 128MiB' "$work/out" || { cat "$work/out"; fail "check mode shows no difference"; }
[ "$(modes)" = "$(all observe | sed "s/$first=observe/$first=enforce/")" ] || fail "check mode changed: $(modes)"
ok "check mode with --diff shows the new configuration and changes nothing"
play everywhere "${everywhere[@]}"
now=$(modes)
[ "$now" = "$(all observe | sed "s/$first=observe/$first=enforce/")" ] || fail "modes: $now"
daemon=$(on "$first" systemctl show -P MainPID homenode)
ok "without canaries, with more configuration: changed $(changed)modes $now"
same everywhere "${everywhere[@]}"
[ "$(on "$first" systemctl show -P MainPID homenode)" = "$daemon" ] || fail "the daemon was restarted"

if ansible-playbook "$work/site.yml" "${everywhere[@]}" -e '{"homenode_config": {"modes": "enforce"}}' >"$work/out" 2>&1; then fail "a wrong configuration was taken"; fi
grep -q 'failed to validate' "$work/out" || { cat "$work/out"; fail "a wrong configuration: another error"; }
[ "$(grep -c 'ok=' "$work/out")" = 1 ] || { cat "$work/out"; fail "a wrong configuration reached more than one host"; }
[ "$(modes)" = "$now" ] || fail "modes: $(modes)"
on "$first" homenode config check >/dev/null || fail "the configuration of $first is not the one before"
ok "a wrong configuration: refused on $first, the old file stays"

# A second one that is told to enforce refuses: its daemon keeps the old configuration, and the play ends there.
if ansible-playbook "$work/site.yml" -e homenode_mode=enforce -e homenode_observe_for=1 >"$work/out" 2>&1; then fail "a daemon that stays in another mode passed the check"; fi
grep -q 'a homenode that enforces on this host already' "$work/out" || { cat "$work/out"; fail "a daemon that stays in another mode: another error"; }
[ "$(modes)" = "$now" ] || fail "modes: $(modes)"
ok "a daemon that does not take the mode: the play fails there; modes $now"
