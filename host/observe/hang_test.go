package observe

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/homenode/homenode/core/control"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// hanging makes the opening of files wait, as the kernel does on the lock of an address
// space.
type hanging struct {
	sync.Mutex
	files   map[string]bool
	opened  map[string]int
	release chan struct{}
}

func hang(t *testing.T, r *rig, files ...string) *hanging {
	h := &hanging{files: map[string]bool{}, opened: map[string]int{}, release: make(chan struct{})}
	for _, f := range files {
		h.files[f] = true
	}
	r.fs.fail = func(name string) error {
		h.Lock()
		h.opened[name]++
		waits := h.files[name]
		h.Unlock()
		if waits {
			<-h.release
			return errors.New("answered too late")
		}
		return nil
	}
	t.Cleanup(h.end)
	// Long enough that only what hangs is late on a busy machine.
	r.o.maps.deadline, r.o.maps.lookPatience, r.o.maps.onePatience = 500*time.Millisecond, 200*time.Millisecond, 100*time.Millisecond
	return h
}

func (h *hanging) end() {
	h.Lock()
	defer h.Unlock()
	if h.files != nil {
		h.files = nil
		close(h.release)
	}
}

func (h *hanging) reads(name string) int {
	h.Lock()
	defer h.Unlock()
	return h.opened[name]
}

// R1: a process that holds the lock of its address space is left alone and named; what
// else there is is seen as ever, and it is not asked again while it holds it.
func TestProcessThatDoesNotAnswer(t *testing.T) {
	for _, mode := range []string{"processes", "cgroups", "cgroups without memory controller"} {
		t.Run(mode, func(t *testing.T) {
			m := newFake()
			stuck, other := workload.ID("/a.service"), workload.ID("/b.service")
			a, _ := m.service("/a.service", 100, "stu\x1bck", 200*mib)
			b, _ := m.service("/b.service", 101, "b", 100*mib)
			a.anon, b.anon = byNode{50 * mib, 150 * mib}, byNode{100 * mib, 0}
			switch mode {
			case "processes":
				m.mounts, m.top, stuck, other = "", "", "pid:100", "pid:101"
			case "cgroups without memory controller":
				a.noMemory, b.noMemory = true, true
			}
			r := newRig(t, m, Options{})
			h := hang(t, r, "proc/100/numa_maps")
			s := r.look()
			told := mode == "cgroups" // by memory.numa_stat
			if o := find(t, s, stuck); o.Unanswered || o.MemoryUnread == told || o.OwnPolicy != workload.PolicyUnknown || len(s.Problems) > 0 {
				t.Errorf("first look: %+v, problems %v", o, s.Problems)
			}
			time.Sleep(r.o.maps.deadline)
			for range 20 {
				s = r.after(2 * time.Second)
				o := find(t, s, stuck)
				if !o.Unanswered || o.OwnPolicy != workload.PolicyUnknown {
					t.Fatalf("%+v", o)
				}
				if told && workload.Total(o.Memory) != 200*mib || !told && len(o.Memory) > 0 {
					t.Errorf("memory %v", o.Memory)
				}
				want := workload.Problem{Subject: string(stuck), Code: words.ProcessSilent,
					Text: `process 100 (stu\x1bck): the kernel does not answer when homenode reads its memory map; its pages are left alone`}
				if len(s.Problems) != 1 || s.Problems[0] != want {
					t.Errorf("problems %q", s.Problems)
				}
				if o := find(t, s, other); o.Unanswered || o.MemoryUnread || workload.Total(o.Memory) != 100*mib || o.OwnPolicy != "" {
					t.Errorf("another is %+v", o)
				}
			}
			if n := h.reads("proc/100/numa_maps"); n != 1 {
				t.Errorf("asked %d times", n)
			}
			h.end()
			time.Sleep(50 * time.Millisecond) // for the reader to come back; it brings an error
			r.after(2 * time.Second)
			o := find(t, r.after(time.Hour), stuck)
			if o.Unanswered || o.MemoryUnread {
				t.Errorf("it answers again: %+v", o)
			}
		})
	}
}

// One user whose processes all hold their locks does not keep others from being read.
func TestManyProcessesThatDoNotAnswer(t *testing.T) {
	m := newFake()
	m.mounts, m.top = "", ""
	var stuck []string
	for pid := 100; pid < 140; pid++ {
		m.proc(pid, 1, fmt.Sprintf("p%d", pid), "/", 500*mib).uid = 1000
		stuck = append(stuck, fmt.Sprintf("proc/%d/numa_maps", pid))
	}
	m.proc(200, 1, "other", "/", 100*mib)
	r := newRig(t, m, Options{})
	h := hang(t, r, stuck...)
	r.o.maps.onePatience = 10 * time.Millisecond
	began := time.Now()
	s := r.look()
	if took := time.Since(began); took > 2*time.Second {
		t.Errorf("one look took %v", took)
	}
	if o := find(t, s, "pid:200"); o.MemoryUnread || workload.Total(o.Memory) != 100*mib {
		t.Errorf("another is %+v", o)
	}
	time.Sleep(r.o.maps.deadline)
	for range 100 { // until as many are lost as may be
		s = r.after(2 * time.Second)
		if n := len(s.Problems); n > 8 && s.Problems[n-1].Code == words.OwnerUnasked {
			break
		}
		time.Sleep(r.o.maps.deadline / 10)
	}
	r.after(20 * time.Second)
	s = r.after(20 * time.Second)
	asked, unanswered, unasked := 0, 0, 0
	for _, name := range stuck {
		asked += h.reads(name)
	}
	for _, o := range s.Observations {
		if o.Unanswered {
			unanswered++
		}
		if o.Unasked {
			unasked++
			want := "Left alone: too many other processes of user 1000 do not answer, so homenode does not read the memory map of this one. It retries when some of them answer or end."
			if why := o.Unread().String(); why != want {
				t.Errorf("%s: %s", o.ID, why)
			}
		}
	}
	// Of one owner eight calls are lost; the others are not even asked, which the snapshot says.
	if asked != 8 || unasked != len(stuck)-8 || unanswered != len(stuck) {
		t.Errorf("%d asked and %d reported as unanswered; want 8 and %d", asked, unanswered, len(stuck))
	}
	want := workload.Problem{Subject: "proc/PID/numa_maps", Code: words.OwnerUnasked,
		Text: "too many processes of user 1000 do not answer: homenode does not read the memory maps of 32 others of the same owner and leaves their pages alone; end the processes that do not answer, or unmount the file system they wait for"}
	if p := s.Problems[len(s.Problems)-1]; p != want {
		t.Errorf("problem %v, want %v", p, want)
	}
	h.end()
	time.Sleep(50 * time.Millisecond) // for the readers to come back; they bring an error
	r.after(time.Hour)
	for _, o := range r.after(20 * time.Second).Observations {
		if o.Unanswered || o.MemoryUnread {
			t.Errorf("%s answers again: %+v", o.ID, o)
		}
	}
}

// Users who hold the locks of many processes blind nobody else, whatever UIDs they have: root's
// service that starts later is read, and so is another user's.
func TestManyUIDsThatDoNotAnswer(t *testing.T) {
	for _, mode := range []string{"processes", "cgroups"} {
		t.Run(mode, func(t *testing.T) {
			m := newFake()
			m.group("/system.slice", fakeGroup{})
			m.group("/user.slice", fakeGroup{})
			for _, user := range []int{1000, 1001, 2000} {
				m.group(fmt.Sprintf("/user.slice/user-%d.slice", user), fakeGroup{})
			}
			var stuck []string
			for n := range 40 {
				pid, uid := 100+n, 100000+n/4
				if mode == "processes" {
					m.mounts, m.top = "", ""
					m.proc(pid, 1, fmt.Sprintf("p%d", pid), "/", 70*mib).uid = uid
				} else {
					user := 1000 + n/20 // two users
					g, p := m.service(fmt.Sprintf("/user.slice/user-%d.slice/a%d.scope", user, n), pid, "x", 70*mib)
					p.uid, g.anon = uid, byNode{70 * mib, 0}
				}
				stuck = append(stuck, fmt.Sprintf("proc/%d/numa_maps", pid))
			}
			r := newRig(t, m, Options{})
			hang(t, r, stuck...)
			r.o.maps.onePatience = 10 * time.Millisecond
			for range 8 {
				r.look()
				time.Sleep(100 * time.Millisecond)
				r.after(2 * time.Second)
			}
			system, user := workload.ID("pid:900"), workload.ID("pid:901")
			if mode == "processes" {
				m.proc(900, 1, "db", "/", 8<<20)
				m.proc(901, 1, "other", "/", 4<<20).uid = 2000
			} else {
				system, user = "/system.slice/db.service", "/user.slice/user-2000.slice/other.scope"
				g, _ := m.service(string(system), 900, "db", 8<<20)
				o, p := m.service(string(user), 901, "other", 4<<20)
				g.anon, o.anon, p.uid = byNode{8 << 20, 0}, byNode{4 << 20, 0}, 2000
			}
			r.after(2 * time.Second)
			time.Sleep(200 * time.Millisecond)
			s := r.after(2 * time.Second)
			for _, id := range []workload.ID{system, user} {
				if o := find(t, s, id); o.MemoryUnread || o.OwnPolicy == workload.PolicyUnknown {
					t.Errorf("%s: memory unread %t, policy %q", id, o.MemoryUnread, o.OwnPolicy)
				}
			}
		})
	}
}

// Whatever hangs, a look is over when its time is.
func TestLookThatHangs(t *testing.T) {
	m := newFake()
	m.service("/a.service", 100, "a", 100*mib)
	r := newRig(t, m, Options{})
	h := hang(t, r, "sys/fs/cgroup/a.service/cpu.stat")
	r.fs.refresh()
	look := func() error {
		ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
		defer cancel()
		_, err := r.o.Look(ctx, control.Attention{})
		return err
	}
	for range 3 {
		began := time.Now()
		if err := look(); !errors.Is(err, plan.ErrNoAnswer) || !errors.Is(err, context.DeadlineExceeded) || strings.Contains(err.Error(), "\n") {
			t.Fatal(err)
		}
		if took := time.Since(began); took > time.Second {
			t.Errorf("took %v", took)
		}
		r.o.Stale("/a.service") // nobody waits for a look to say so
		r.o.Changed("/a.service")
	}
	h.end()
	r.o.turn <- struct{}{} // it has come back
	<-r.o.turn
	r.look()
	if n := h.reads("sys/fs/cgroup/a.service/cpu.stat"); n != 2 {
		t.Errorf("%d looks", n)
	}
}

// A look that panics is one that failed; of a process whose memory maps do, nothing is known.
func TestLookThatPanics(t *testing.T) {
	m := newFake()
	m.service("/a.service", 100, "a", 100*mib)
	r := newRig(t, m, Options{})
	broken := "sys/fs/cgroup/a.service/cpu.stat"
	r.fs.fail = func(name string) error {
		if name == broken {
			panic("on purpose")
		}
		return nil
	}
	r.fs.refresh()
	for range 2 {
		if _, err := r.o.Look(t.Context(), control.Attention{}); err == nil || !strings.Contains(err.Error(), "on purpose") {
			t.Error(err)
		}
	}
	broken = "proc/100/numa_maps"
	if s := r.look(); len(s.Problems) != 1 || !strings.Contains(s.Problems[0].Text, "on purpose") {
		t.Errorf("problems %v", s.Problems)
	}
}

// R5: what was never read has a budget too, the largest first.
func TestFirstLookHasABudget(t *testing.T) {
	const each = 40 * time.Millisecond
	m := newFake()
	m.mounts, m.top = "", ""
	for pid := 100; pid < 160; pid++ {
		m.proc(pid, 1, fmt.Sprintf("p%d", pid), "/", topology.KiB(pid)*mib)
	}
	r := newRig(t, m, Options{})
	var read []string
	r.fs.fail = func(name string) error {
		if strings.HasSuffix(name, "/numa_maps") {
			read = append(read, name)
			r.now = r.now.Add(each)
		}
		return nil
	}
	s := r.look()
	if want := "proc/159/numa_maps proc/158/numa_maps proc/157/numa_maps"; strings.Join(read, " ") != want {
		t.Errorf("read in the first look %q, want %q", read, want)
	}
	unread := func(s workload.Snapshot) (n int) {
		for _, o := range s.Observations {
			if o.MemoryUnread {
				n++
			}
			if o.MemoryUnread != (len(o.Memory) == 0) || o.MemoryUnread != (o.OwnPolicy == workload.PolicyUnknown) {
				t.Errorf("%+v", o)
			}
		}
		return n
	}
	if n := unread(s); n != 57 {
		t.Errorf("%d unread, want 57", n)
	}
	looks := 0
	for ; unread(s) > 0 && looks < 100; looks++ {
		before := len(read)
		s = r.after(2 * time.Second)
		if n := len(read) - before; n > 3 {
			t.Fatalf("%d read in one look", n)
		}
	}
	if looks < 30 || looks > 70 { // 2 % of 2 s is one
		t.Errorf("all read after %d looks", looks)
	}
	for pid := 200; pid < 230; pid++ {
		m.proc(pid, 1, fmt.Sprintf("p%d", pid), "/", topology.KiB(pid)*mib)
	}
	before := len(read)
	r.after(2 * time.Second)
	if n := len(read) - before; n > 3 {
		t.Errorf("%d of the new ones read in one look", n)
	}
}

// Where memory.numa_stat answers, numa_maps of one process tells the policies and the
// others are read as time allows.
func TestCgroupNeedsNoMaps(t *testing.T) {
	m := newFake()
	m.service("/a.service", 100, "a", 100*mib)
	for pid := 101; pid < 150; pid++ {
		m.proc(pid, 100, "a", "/a.service", 90*mib)
	}
	r := newRig(t, m, Options{})
	reads := 0
	r.fs.fail = func(name string) error {
		if strings.HasSuffix(name, "/numa_maps") {
			reads++
			r.now = r.now.Add(10 * time.Millisecond)
		}
		return nil
	}
	o := find(t, r.look(), "/a.service")
	if reads != 1 || o.MemoryUnread || o.OwnPolicy != "" || workload.Total(o.Memory) != 100*mib {
		t.Errorf("%d read; %+v", reads, o)
	}
	for range 30 {
		r.after(2 * time.Second)
	}
	if reads < 5 || reads > 1+30 {
		t.Errorf("%d read in a minute", reads)
	}
}

// Figures from before a move of pages are told to be that until they are read again.
func TestReadingAfterAMoveThatTakesLong(t *testing.T) {
	m := newFake()
	m.mounts, m.top = "", ""
	p := m.proc(100, 1, "a", "/", 100*mib)
	p.maps = "7f00 default anon=25600 N0=25600 kernelpagesize_kB=4\n"
	r := newRig(t, m, Options{})
	if o := find(t, r.look(), "pid:100"); o.MemoryMoved || workload.Total(o.Memory) != 100*mib {
		t.Fatalf("at first %+v", o)
	}
	h := hang(t, r, "proc/100/numa_maps")
	p.maps = "7f00 default anon=25600 N1=25600 kernelpagesize_kB=4\n"
	r.o.Stale("pid:100")
	for range 2 {
		if o := find(t, r.after(2*time.Second), "pid:100"); !o.MemoryMoved || o.Memory[0].Node != 0 {
			t.Errorf("while it is read: %+v", o)
		}
	}
	h.end()
	r.after(20 * time.Second) // that reading has failed
	if o := find(t, r.after(20*time.Second), "pid:100"); o.MemoryMoved || len(o.Memory) != 1 || o.Memory[0].Node != 1 {
		t.Errorf("when it is read: %+v", o)
	}
}
