#!/bin/sh
# build.sh: compiles the scheduler where its source has changed since; SHA256SUMS says for which
# source the objects are. Needs clang 16 or later and llvm-strip, and only then.
set -eu
cd "$(dirname "$0")"
sha256sum --status -c SHA256SUMS 2>/dev/null && exit 0
for v in -19 -18 -17 -16 ''; do
	command -v clang$v >/dev/null && command -v llvm-strip$v >/dev/null || continue
	[ "$(clang$v -dumpversion | cut -d. -f1)" -ge 16 ] && break
	v=none
done
command -v "clang$v" >/dev/null 2>&1 || { echo 'the scheduler in host/scx/bpf has changed, and clang 16 or later is missing: apt-get install clang-19 llvm-19' >&2; exit 3; }
for g in 1 2; do
	clang$v -O2 -g -mcpu=v3 -target bpf -Wall -Wextra -Werror -Wno-unused-parameter -Wno-sign-compare -Wno-parentheses \
		-DGENERATION=$g -c share.bpf.c -o share.v$g.o
	llvm-strip$v -g share.v$g.o
done
sha256sum build.sh kernel.h share.h share.bpf.c share.v1.o share.v2.o >SHA256SUMS
