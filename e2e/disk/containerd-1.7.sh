# disk/containerd-1.7.sh: the older containerd, with an NRI of its time; sourced by fetch-disk.sh.
. e2e/disk/containerd.sh
about='containerd 1.7 and runc'
suite=trixie
