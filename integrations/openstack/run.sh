#!/bin/sh
# Tests the scheduler's part, and what homenode does beside Nova, with the real Nova from PyPI:
# its own functional fixtures have API, scheduler, conductor, compute and Placement in one
# process, with a fake libvirt. Nova is fetched once, into a virtual environment outside of the
# repository. usage: run.sh [MODULE...]
set -eu
here=$(cd "$(dirname "$0")" && pwd)
nova=${HOMENODE_NOVA:-${XDG_CACHE_HOME:-$HOME/.cache}/homenode/nova}
version=34.0.0
if [ "$(cat "$nova/ready" 2>/dev/null)" != "$version" ]; then
	{
		python3 -m venv "$nova" &&
			# SQLAlchemy 2.1 is newer than this Nova; the rest is what Nova's own tests import.
			"$nova/bin/pip" install -q "nova==$version" 'SQLAlchemy<2.1' openstack-placement ddt fixtures oslotest osprofiler \
				requests-mock testresources testscenarios testtools wsgi-intercept PyMySQL
	} || { echo "skipped: Nova $version cannot be fetched (python3-venv and the network are needed)"; exit 0; }
	# The tests look for etc/nova beside the package; pip puts it at the root.
	ln -sfn "$nova/etc" "$("$nova/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/etc"
	echo "$version" >"$nova/ready"
fi
cd "$here"
python3 -m unittest discover -q -s tests -t .
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
export HOMENODE_NOVA_DOMAINS="$out/domains"
run() { "$nova/bin/python" -m testtools.run "$@" >"$out/log" 2>&1 || { cat "$out/log"; exit 1; }; tail -2 "$out/log"; }
if [ $# = 0 ]; then # by native threads, too, which Nova is to have instead of eventlet
	(export OS_NOVA_DISABLE_EVENTLET_PATCHING=true && run nova_tests.test_scheduler.WeigherTest)
	set -- nova_tests.test_daemon nova_tests.test_scheduler nova_tests.test_export nova_tests.test_documents
fi
run "$@"
[ ! -e "$HOMENODE_NOVA_DOMAINS/host.json" ] || (cd ../.. && ${GO:-go} test -count 1 -run 'TestNova(Documents|Migrates|Runs)' ./host/libvirt/...)
