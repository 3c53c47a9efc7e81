#!/bin/sh
# After the files are gone. dpkg says "remove", and "purge" when configuration and state go
# too; rpm knows no purge and says how many versions are left: with 0 the state goes, for
# all of it is restored.
set -e
if [ -d /run/systemd/system ]; then systemctl daemon-reload || true; fi
case $1 in
remove)
	rm -rf /run/homenode/runs /run/homenode/enforce.lock
	rmdir /run/homenode/frozen /run/homenode 2>/dev/null || true
	;;
purge | 0) rm -rf /var/lib/homenode /run/homenode ;;
esac
