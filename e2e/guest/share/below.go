//go:build linux

package share

import (
	"bytes"
	"context"
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
	"github.com/homenode/homenode/e2e/guest/lab"
	"github.com/homenode/homenode/host/scx"
)

//go:embed root.v3.o
var rootObject []byte

// otherRoot loads another scheduler, that has all threads and lets others have cgroups
// (host/scx/bpf/root.bpf.c), until the function is called that it returns.
func otherRoot(t *lab.T) (maps map[string]*ebpf.Map, end func()) {
	os.MkdirAll("/sys/fs/bpf", 0o755)
	if err := syscall.Mount("bpf", "/sys/fs/bpf", "bpf", 0, ""); err != nil && err != syscall.EBUSY {
		t.Fatalf("mount bpffs: %v", err)
	}
	s := scx.Probe()
	if s.Kind == scx.NoSchedExt || !s.Below {
		t.Skipf("no sub-schedulers in this kernel: %s", s.Why)
	}
	spec, err := ebpf.LoadCollectionSpecFromReader(bytes.NewReader(rootObject))
	t.Do(err)
	spec.Maps["arena"].MapExtra = arenaAt // an address for a process that would map it
	c, err := ebpf.NewCollection(spec)
	if err != nil {
		t.Fatalf("load the other scheduler: %+v", err)
	}
	at := allCIDs(t, c.Maps["arena"])
	t.Defer(func() { unix.MunmapPtr(at, arenaPages*uintptr(os.Getpagesize())) })
	l, err := link.AttachStructOps(link.StructOpsOptions{Map: c.Maps["root"]})
	t.Do(err)
	t.Poll(5*time.Second, 10*time.Millisecond, "the other scheduler runs", func() (bool, string) {
		on, name := enabled()
		return on && name == "other", name
	})
	t.OnFailure(func() {
		var e [272]byte // struct ending
		err := c.Maps["endings"].Lookup(uint32(0), &e)
		t.Logf("the other scheduler ended with %q (%v)", bytes.Trim(e[16:], "\x00"), err)
	})
	end = sync.OnceFunc(func() { l.Close(); c.Maps["root"].Close() })
	t.Defer(end)
	return c.Maps, end
}

const (
	arenaAt    = 1 << 44
	arenaPages = 1024
)

// allCIDs writes the set of all CPUs at the start of the arena, where host/scx/bpf/root.bpf.c has it.
func allCIDs(t *lab.T, arena *ebpf.Map) unsafe.Pointer {
	at, err := unix.MmapPtr(arena.FD(), 0, unsafe.Add(nil, arenaAt), arenaPages*uintptr(os.Getpagesize()),
		unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_FIXED)
	t.Do(err)
	n := uint32(runtime.NumCPU())
	*(*struct { // struct scx_cmask
		Base, CIDs, Words, _ uint32
		Bits                 [2]uint64
	})(at) = struct {
		Base, CIDs, Words, _ uint32
		Bits                 [2]uint64
	}{CIDs: n, Words: 2, Bits: [2]uint64{1<<n - 1}}
	return at
}

// scxBelow: below another scheduler batch work keeps to its budget, and takes what is left.
func scxBelow(t *lab.T) {
	root, _ := otherRoot(t)
	conf := machine(t)
	began := time.Now()
	s, err := scx.Load(context.Background(), scx.Options{Config: conf})
	t.Do(err)
	t.Do(s.Attach())
	t.Defer(func() { s.Detach(); s.Close() })
	t.Logf("loaded in %v", time.Since(began))
	off := batchHogs(t, s, len(conf.CPUs))
	began = time.Now()
	t.Do(s.AttachTo(tiered(t, off, workload.BatchTier).ID))
	t.Logf("attached in %v", time.Since(began))
	runtime.GC()
	comesTo(t, "batch work alone", off, float64(len(conf.CPUs))-0.3, float64(len(conf.CPUs)))
	for _, budget := range []float64{1, 0.5} {
		c := conf
		for n := range t.Shape.Nodes {
			c.Nodes = append(c.Nodes, scx.Node{ID: topology.NodeID(n), Budget: budget})
		}
		t.Do(s.Set(c))
		all := budget * float64(t.Shape.Nodes)
		comesTo(t, "within its budget", off, all*0.85, all*1.1)
	}
	web := t.NewGroup(lab.CgroupRoot, "web")
	t.Write(web.File("cpuset.cpus"), "0")
	t.Do(s.SetTiers([]scx.Cgroup{tiered(t, off, workload.BatchTier), tiered(t, web, workload.OnlineStrict)}))
	t.Do(s.Set(conf))
	startIn(t, web, "hog", "1")
	comesTo(t, "beside online-strict work", off, float64(len(conf.CPUs))-2.15, float64(len(conf.CPUs))-1.9)
	between(t, "online-strict work", web.Uses(window(t)), 0.95, 1.01)
	st := counters(t, s)
	if st.Refused.Expelled == 0 || st.Refused.Budget == 0 || st.Exit.Kind != 0 {
		t.Fatalf("%+v", st)
	}

	// The other one keeps a second cgroup from running: the watchdog gives it those threads, and the first goes on.
	more := t.NewGroup(lab.CgroupRoot, "more")
	startIn(t, more, "hog", "1")
	t.Do(s.AttachTo(t.Inode(more)))
	t.Do(root["alone"].Put(uint32(0), t.Inode(more)))
	t.Poll(2*time.Minute, 100*time.Millisecond, "the watchdog ends the second", func() (bool, string) {
		return !hasSub(t, more), fmt.Sprintf("%+v", counters(t, s).Exit)
	})
	between(t, "the first goes on", off.Uses(window(t)), 0.5, float64(len(conf.CPUs)))
	if st := counters(t, s); !hasSub(t, off) || st.Exit.Kind != 0 {
		t.Fatalf("the first ended, too: %+v", st.Exit)
	}

	// It keeps both from running.
	t.Do(root["alone"].Put(uint32(0), uint64(1)))
	t.Poll(2*time.Minute, 100*time.Millisecond, "the watchdog ends the first", func() (bool, string) {
		return !hasSub(t, off), fmt.Sprintf("%+v", counters(t, s).Exit)
	})
	if on, name := enabled(); !on || name != "other" {
		t.Fatalf("the other scheduler: %v %s", on, name)
	}
	for _, n := range counters(t, s).Nodes {
		if n.Batch != 0 {
			t.Fatalf("node %d counts %d CPUs with batch work, and none has any", n.ID, n.Batch)
		}
	}
	comesTo(t, "the other one has the threads", off, float64(len(conf.CPUs))-1.3, float64(len(conf.CPUs)))
}

// hasSub is whether the kernel has a sub-scheduler for a cgroup.
func hasSub(t *lab.T, g lab.Group) bool {
	_, err := os.Stat(fmt.Sprint(schedExt, "root/sub/sub-", t.Inode(g)))
	return err == nil
}

// shareBelow: below another scheduler the daemon gives each cgroup of batch work a sub-scheduler. It stays through
// kill -9, follows the share, takes new cgroups, and undo leaves nothing. One that the kernel ends costs the others
// nothing, and comes back. When the other one ends, homenode's own is loaded.
func shareBelow(t *lab.T) {
	encode, web := sharedHost(t)
	root, end := otherRoot(t)
	options := lab.DaemonOptions{Mode: "enforce", Period: "2s", Wrap: []string{lab.Self, "as-service"},
		Extra: strings.Replace(sharingOn, "match: encode", `match: "encode*"`, 1)}
	d := t.StartDaemon(options)
	below := func(g lab.Group) bool { return hasSub(t, g) }
	await := func(what string) (s scheduling) {
		t.Poll(60*time.Second, time.Second, what, func() (bool, string) {
			s = readScheduling(t)
			return s.Scheduler.Enabled && below(encode.Group) && !below(web.Group) && s.Scheduler.Left == 0 &&
				slices.Equal(policies(t, encode.Group), []int{policyExt}), s.Scheduler.Why
		})
		return s
	}
	first := await("batch work has a sub-scheduler")
	if s := first.Scheduler; s.Other != "other" || !strings.Contains(s.Why, "below the scheduler other") {
		t.Fatalf("status says %+v", s)
	}
	d.Kill9()
	if !below(encode.Group) {
		t.Fatalf("it ended with the daemon")
	}
	d = t.StartDaemon(options)
	if s := await("the next daemon adopts it"); s.Scheduler.Version != first.Scheduler.Version {
		t.Fatalf("another version: %+v", s.Scheduler)
	}
	more := t.StartWalkers(lab.CgroupRoot, lab.WalkerSpec{Name: "encode2", Slot: 2, MiB: 16, Threads: 1,
		Place: "bind:1", Unbind: true})[0]
	t.Poll(60*time.Second, time.Second, "what comes later has one, too", func() (bool, string) {
		return below(more.Group), readScheduling(t).Scheduler.Why
	})
	id := t.Inode(more.Group)
	t.Do(root["alone"].Put(uint32(0), id))
	t.Poll(2*time.Minute, time.Second, "the watchdog ends the one of the second", func() (bool, string) {
		return !below(more.Group), ""
	})
	t.Poll(20*time.Second, time.Second, "history says so", func() (bool, string) {
		out := t.Must(lab.Homenode("history"), lab.ExitOK).Out
		return strings.Contains(out, "ended the scheduler of the batch work in /encode2"), out
	})
	if s := readScheduling(t).Scheduler; !s.Enabled || !below(encode.Group) || s.Left == 0 {
		t.Fatalf("status says %+v", s)
	}
	t.Do(root["alone"].Put(uint32(0), uint64(0)))
	t.Poll(2*time.Minute, time.Second, "it gets another one", func() (bool, string) {
		return below(more.Group), readScheduling(t).Scheduler.Why
	})
	more.Kill()
	t.Do(os.Remove(string(more.Group)))
	t.Poll(20*time.Second, time.Second, "of a cgroup that is gone nothing is pinned", func() (bool, string) {
		pins, _ := filepath.Glob(fmt.Sprint("/sys/fs/bpf/homenode*/*-", id))
		return len(pins) == 0, fmt.Sprint(pins)
	})

	t.Must(lab.Homenode("share", "off"), lab.ExitOK)
	t.Poll(10*time.Second, time.Second, "share off takes it out", func() (bool, string) {
		pins, _ := filepath.Glob("/sys/fs/bpf/homenode*")
		return !below(encode.Group) && len(pins) == 0, fmt.Sprint(pins)
	})
	if on, name := enabled(); !on || name != "other" {
		t.Fatalf("the other scheduler: %v %s", on, name)
	}
	t.Must(lab.Homenode("share", "on"), lab.ExitOK)
	await("and on again")
	end()
	awaitScheduler(t, encode)
	t.Stop(d)
	t.Must(lab.Homenode("undo", "--all"), lab.ExitOK)
	noPins(t)
	if got := policies(t, encode.Group); !slices.Equal(got, []int{0}) {
		t.Fatalf("after undo the policies are %v", got)
	}
	t.Walking([]*lab.Walker{encode, web})
}
