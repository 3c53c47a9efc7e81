package cli

// namesText says how a workload is named on the command line (workload.Find).
const namesText = "NAME is an ID that `homenode status` prints, a PID (of any process or thread of\n" +
	`the workload), a cgroup (with or without /sys/fs/cgroup), a systemd unit, the ID
of a container or its first characters, the name or UUID of a guest, or the name
of a program. Where several workloads fit, all are listed and nothing is done.`
