#!/bin/sh
# build.sh: compiles the scheduler where its source has changed since; SHA256SUMS says for which
# source the objects are. Needs clang 16 or later and llvm-strip, and only then.
set -eu
cd "$(dirname "$0")"
root=../../../e2e/guest/share/root.v3.o # of tests
sha256sum --status -c SHA256SUMS 2>/dev/null && exit 0
for v in -19 -18 -17 -16 ''; do
	command -v clang$v >/dev/null && command -v llvm-strip$v >/dev/null || continue
	[ "$(clang$v -dumpversion | cut -d. -f1)" -ge 16 ] && break
	v=none
done
command -v "clang$v" >/dev/null 2>&1 || { echo 'the scheduler in host/scx/bpf has changed, and clang 16 or later is missing: apt-get install clang-19 llvm-19' >&2; exit 3; }
compile() { # generation, CPU, source, object
	# no path of this machine: the version of an object is its checksum
	clang$v -O2 -g -ffile-prefix-map="$PWD"=. -mcpu=$2 -target bpf -Wall -Wextra -Werror -Wno-unused-parameter -Wno-sign-compare -Wno-parentheses \
		-DGENERATION=$1 -c $3 -o $4
	llvm-strip$v -g $4
}
compile 1 v3 share.bpf.c share.v1.o
compile 2 v3 share.bpf.c share.v2.o
compile 3 v3 sub.bpf.c sub.v3.o
compile 3 v3 root.bpf.c "$root"
sha256sum build.sh kernel.h share.h tiers.h share.bpf.c sub.bpf.c root.bpf.c share.v1.o share.v2.o sub.v3.o "$root" >SHA256SUMS
