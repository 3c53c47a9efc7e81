package scx

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"strings"
)

// Name is what the kernel calls the scheduler, in /sys/kernel/sched_ext/root/ops.
const Name = "homenode"

// Kind tells apart why the scheduler can not be loaded.
type Kind int

const (
	Supported    Kind = iota
	NoSchedExt        // the kernel is built without CONFIG_SCHED_CLASS_EXT, or is older than 6.12
	NoBTF             // no /sys/kernel/btf/vmlinux (CONFIG_DEBUG_INFO_BTF)
	NoFunctions       // sched_ext of a kernel whose functions have names this homenode does not know
	NoCapability      // neither CAP_SYS_ADMIN nor CAP_BPF with CAP_PERFMON
	NoBPFFS           // no bpffs at /sys/fs/bpf
	Other             // another sched_ext scheduler is loaded, and is left alone
	Refused           // the kernel did not take the programs; nothing was changed
)

// Support says whether the scheduler can be loaded here. It is an error where it can not.
type Support struct {
	OK         bool
	Kind       Kind
	Why        string // one line; "" when OK
	Generation string // which of the embedded objects fits: v1 (Linux 6.13 to 7.0) or v2 (7.2 and later)
	Running    bool   // a scheduler called homenode is enabled already
	Scheduler  string // the one that is enabled, as the kernel names it; "" none
	Below      bool   // the kernel can run this one below another that takes such
	err        error
}

func (s Support) Error() string { return s.Why }
func (s Support) Unwrap() error { return s.err }

// Probe asks the kernel and loads nothing.
func Probe() Support { return probe(os.DirFS("/")) }

func probe(root fs.FS) Support {
	no := func(k Kind, format string, a ...any) Support {
		return Support{Kind: k, Why: fmt.Sprintf(format, a...)}
	}
	state, err := fs.ReadFile(root, "sys/kernel/sched_ext/state")
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return no(NoSchedExt, "the kernel has no sched_ext (it needs Linux 6.13 with CONFIG_SCHED_CLASS_EXT)")
	case err != nil:
		return no(NoSchedExt, "read /sys/kernel/sched_ext/state: %v", err)
	}
	f, err := root.Open("sys/kernel/btf/vmlinux")
	if err != nil {
		return no(NoBTF, "the kernel does not tell its types: no /sys/kernel/btf/vmlinux (CONFIG_DEBUG_INFO_BTF)")
	}
	defer f.Close()
	r, ok := f.(io.ReaderAt)
	if !ok {
		b, err := io.ReadAll(f)
		if err != nil {
			return no(NoBTF, "read /sys/kernel/btf/vmlinux: %v", err)
		}
		r = bytes.NewReader(b)
	}
	kernel, err := kernelTypes(r)
	if err != nil {
		return no(NoBTF, "read /sys/kernel/btf/vmlinux: %v", err)
	}
	g, err := choose(kernel)
	if err != nil {
		return no(NoFunctions,
			"the kernel's sched_ext is of a version this homenode does not know (%v): Linux 6.13 and later is known",
			err)
	}
	if !capable(root) {
		return no(NoCapability, "loading a scheduler needs CAP_SYS_ADMIN, or CAP_BPF and CAP_PERFMON")
	}
	if !mountedBPF(root) {
		return no(NoBPFFS, "no bpffs at /sys/fs/bpf: mount -t bpf bpf /sys/fs/bpf")
	}
	s := Support{Generation: g.name, Below: lacks(kernel, generationBelow.needs) == ""}
	if strings.TrimSpace(string(state)) != "disabled" {
		s.Scheduler = running(root)
		s.Running = s.Scheduler == Name || strings.HasPrefix(s.Scheduler, Name+"_")
		if !s.Running && s.Scheduler != "" {
			s.Kind, s.Why = Other, fmt.Sprintf("another sched_ext scheduler is loaded: %s", s.Scheduler)
			return s
		}
	}
	s.OK = true
	return s
}

// running is the name of the scheduler that is enabled.
func running(root fs.FS) string {
	b, err := fs.ReadFile(root, "sys/kernel/sched_ext/root/ops")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// Numbers of include/uapi/linux/capability.h.
const (
	capSysAdmin = 21
	capPerfmon  = 38
	capBPF      = 39
)

func capable(root fs.FS) bool {
	b, err := fs.ReadFile(root, "proc/self/status")
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(b)) {
		if value, ok := strings.CutPrefix(line, "CapEff:"); ok {
			set, err := strconv.ParseUint(strings.TrimSpace(value), 16, 64)
			has := func(c int) bool { return set>>c&1 == 1 }
			return err == nil && (has(capSysAdmin) || (has(capBPF) && has(capPerfmon)))
		}
	}
	return false
}

func mountedBPF(root fs.FS) bool {
	b, err := fs.ReadFile(root, "proc/self/mounts")
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); len(f) > 2 && f[1] == "/sys/fs/bpf" && f[2] == "bpf" {
			return true
		}
	}
	return false
}
