#!/bin/sh
# Before the files go. dpkg says "remove", or "upgrade" when another version follows; rpm
# says how many versions will be left. On removal the service ends and every setting that
# homenode changed gets its old value back; when that fails, the removal stops, for
# nothing else could put them back later, and the service starts again with the machine as before.
set -e
case $1 in
remove | deconfigure | 0) ;;
*) exit 0 ;;
esac
if [ -d /run/systemd/system ]; then systemctl stop homenode.service || true; fi

# Where the journal is homenode reads from its own configuration: state_dir may be any text.
said=$(homenode undo --all) || {
	[ -z "$said" ] || echo "$said"
	echo "homenode is not removed: some settings could not be restored (see above). Mend what is in the way" >&2
	echo "and remove it again. To give up on these settings delete the state folder first (/var/lib/homenode," >&2
	echo "or what state_dir in /etc/homenode.yaml names)." >&2
	exit 1
}
# Nothing stays held, should homenode come back; what undo says of `homenode resume` is no advice to a
# user who removes the program.
case $said in
*'left alone until'*) homenode resume --all >/dev/null || true ;;
esac
said=$(echo "$said" | sed '/^left alone until /d')
[ "$said" = 'nothing to undo' ] || echo "$said"
if command -v systemctl >/dev/null 2>&1; then systemctl --quiet disable homenode.service 2>/dev/null || true; fi
if [ -e /etc/libvirt/hooks/qemu.d/homenode ]; then homenode vm hook --uninstall || true; fi
