#!/bin/sh
# After the files are in place. dpkg says "configure [OLD VERSION]", rpm how many versions
# there are now. Nothing is enabled or started: homenode's commands work without the
# service, and whoever installs a tool for the command line has not asked for a daemon.
set -e
reload() { if [ -d /run/systemd/system ]; then systemctl daemon-reload || true; fi; }
case "$1/$2" in
configure/ | 1/*)
	reload
	echo 'homenode: nothing runs yet and nothing is changed. To watch this machine: systemctl enable --now homenode'
	;;
configure/* | 2/*)
	reload
	# A daemon that ran goes on with the new program; homes and journal are kept.
	if [ -d /run/systemd/system ]; then systemctl try-restart homenode.service || true; fi
	;;
esac
