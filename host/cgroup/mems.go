package cgroup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/host/internal/proc"
)

// The kernel takes the mmap lock of every process in a cgroup, for writing, while a write of
// cpuset.mems holds cpuset_mutex (cpuset_update_tasks_nodemask, kernel/cgroup/cpuset.c;
// mpol_rebind_mm, mm/mempolicy.c). A process can hold its own lock for as long as it likes:
// in mmap(2) of a file on a FUSE server of its own or on a dead NFS server. Then the write
// never returns, no cgroup can be made and no CPU set changed on the whole host, and no
// deadline helps.
//
// A task that the cgroup freezer has stopped is at the end of a system call and holds no
// such lock (do_freezer_trap, kernel/signal.c); one that holds its lock does not freeze. So
// cpuset.mems of a cgroup with processes is written only while all of them are frozen.
const (
	// freezeWithin is how long a cgroup has to freeze. One that can does so in a few
	// milliseconds: each task needs to get onto a CPU once.
	freezeWithin = 300 * time.Millisecond

	// writeWithin is how long after `frozen 1` the write may still begin: what thaws
	// behind homenode's back does so at thawAfter.
	writeWithin = 500 * time.Millisecond

	// frozenMost is how long a workload stays frozen beyond freezeWithin. The write takes
	// longer only while the kernel moves pages that were left outside the new nodes, which
	// it does after it has let cpuset_mutex go: the workload runs on meanwhile.
	frozenMost = time.Second

	// thawAfter is when the guardian thaws, whatever homenode is doing.
	thawAfter = 3 * time.Second

	thawTries = 5

	// reboundEvery is how often it is looked whether a write has begun: one write in many
	// takes longer than this.
	reboundEvery = time.Millisecond
)

const (
	freezeFile = "cgroup.freeze"
	eventsFile = "cgroup.events"
	typeFile   = "cgroup.type"

	partitionFile = "cpuset.cpus.partition"
)

// writeSet writes a set; that of memory nodes only while the processes are frozen.
func (d *Driver) writeSet(ctx context.Context, cgroup string, kind plan.SettingKind, text string) error {
	if kind != plan.CgroupMems {
		return d.files.write(cgroup, string(kind), text)
	}
	then, harmless, err := d.takesNoLock(cgroup, text)
	if err != nil {
		return err
	}
	if harmless {
		return d.files.write(cgroup, string(kind), text)
	}
	f, err := d.freeze(ctx, cgroup)
	if err != nil {
		return &notWritten{err}
	}
	if err = f.late(); err == nil {
		written := f.thawWhenRebound(cgroup, then)
		err = d.files.write(cgroup, string(kind), text)
		written()
	}
	return errors.Join(err, f.thaw(ctx))
}

// takesNoLock reports whether a write of cpuset.mems reaches no process: the cgroup and those
// below have none, or the nodes in effect stay the same (update_nodemasks_hier skips those).
// then is the nodes in effect after it.
func (d *Driver) takesNoLock(cgroup, text string) (then topology.CPUSet, harmless bool, err error) {
	populated, _, err := d.events(cgroup)
	if err != nil {
		return then, false, err
	}
	if !populated {
		return then, true, nil
	}
	want, err := topology.ParseCPUSet(text) // nodes have the same format
	if err != nil {
		return then, false, err
	}
	nodes := func(cgroup string) (topology.CPUSet, error) {
		list, err := d.value(cgroup, plan.CgroupMems+".effective")
		if err != nil {
			return topology.CPUSet{}, err
		}
		return topology.ParseCPUSet(list)
	}
	above, err := nodes(path.Dir(cgroup))
	if err != nil {
		return then, false, err
	}
	now, err := nodes(cgroup)
	if err != nil {
		return then, false, err
	}
	if want = want.Intersect(above); want.Empty() {
		want = above
	}
	return want, want.Equal(now), nil
}

// events reads cgroup.events: whether a cgroup or one below has processes, and whether all of
// them are frozen.
func (d *Driver) events(cgroup string) (populated, frozen bool, err error) {
	text, err := d.files.read(cgroup, eventsFile)
	if err != nil {
		return false, false, d.lost(cgroup, err)
	}
	known := false
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch name {
		case "populated":
			populated, known = value != "0", true
		case "frozen":
			frozen = value == "1"
		}
	}
	if !known {
		return false, false, fmt.Errorf("cgroup %s: %s has no line about its processes: %q", cgroup, eventsFile, text)
	}
	return populated, frozen, nil
}

// freeze is a cgroup that homenode has frozen for a moment.
type freeze struct {
	d      *Driver
	at     string // the cgroup that was frozen
	record string // name of the record of it
	end    func() // ends the guardian
	free   func() // lets other writes of the driver go on
	began  time.Time
	frozen time.Time
	timer  *time.Timer
	once   sync.Once
	took   time.Duration
	err    error // of thawing
}

// freeze freezes the processes of a cgroup, or of one above that only root can thaw, and
// returns once all of them are. After an error homenode has frozen nothing.
func (d *Driver) freeze(ctx context.Context, cgroup string) (*freeze, error) {
	at, err := d.freezable(cgroup)
	if err != nil {
		return nil, err
	}
	free, err := d.alone(ctx, at)
	if err != nil {
		return nil, err
	}
	f := &freeze{d: d, at: at, end: func() {}, free: free}
	if err := f.prepare(ctx); err != nil {
		f.end()
		free()
		return nil, err
	}
	if err := f.runs(); err != nil { // the guardian took its time
		d.forget(f.record)
		f.end()
		free()
		return nil, err
	}
	f.began = time.Now()
	f.timer = time.AfterFunc(freezeWithin+frozenMost, f.thawOnce)
	err = d.files.write(at, freezeFile, "1\n")
	if err != nil {
		err = d.refused(at, freezeFile, "1", err) // it may have taken all the same
	} else {
		err = f.wait(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, f.thaw(ctx))
	}
	return f, nil
}

// prepare checks that the cgroup may be frozen, and puts down what thaws it should homenode
// be killed.
func (f *freeze) prepare(ctx context.Context) error {
	d := f.d
	object, err := d.files.object(f.at)
	if err != nil {
		return d.lost(f.at, err)
	}
	if err := d.thawLeft(object); err != nil {
		return err
	}
	if err := f.runs(); err != nil {
		return err
	}
	if f.record, err = d.keep(f.at, object); err != nil {
		return err
	}
	if d.guardian != nil {
		if f.end, err = d.guardian(d.run, f.record); err != nil {
			f.end = func() {}
			d.forget(f.record)
			return fmt.Errorf("cgroup %s: not frozen without a process that thaws it when homenode is killed: %w", f.at,
				err)
		}
	}
	if d.shared != nil { // last: a process may be put into the cgroup since
		if err := d.shared(ctx, f.at); err != nil {
			d.forget(f.record)
			return err
		}
	}
	return nil
}

// runs returns an error when another program has frozen the cgroup.
func (f *freeze) runs() error {
	now, err := f.d.files.read(f.at, freezeFile)
	if err != nil {
		return f.d.lost(f.at, err)
	}
	if now != "0" {
		return &FrozenError{f.at}
	}
	return nil
}

// wait returns once all processes are frozen.
func (f *freeze) wait(ctx context.Context) error {
	for pause := 100 * time.Microsecond; ; pause = min(2*pause, 5*time.Millisecond) {
		_, frozen, err := f.d.events(f.at)
		if err != nil {
			return err
		}
		if frozen {
			f.frozen = time.Now()
			return nil
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if time.Since(f.began) > freezeWithin {
			return &NotFrozenError{f.at}
		}
		time.Sleep(pause)
	}
}

// late is an error when the processes have been frozen for so long that something else may
// have thawed them.
func (f *freeze) late() error {
	if time.Since(f.frozen) > writeWithin {
		return &NotFrozenError{f.at}
	}
	return nil
}

// thaw lets the processes go on, and reports how long they could not.
func (f *freeze) thaw(ctx context.Context) error {
	f.timer.Stop()
	f.thawOnce()
	plan.Frozen(ctx, f.took)
	return f.err
}

func (f *freeze) thawOnce() {
	f.once.Do(func() {
		f.err = f.d.thawed(f.at)
		f.took = time.Since(f.began)
		if f.err == nil {
			f.d.forget(f.record)
		}
		f.end()
		f.free()
	})
}

// thawed writes 0 to cgroup.freeze until it reads so.
func (d *Driver) thawed(at string) error {
	var err error
	for range thawTries {
		if err = d.files.write(at, freezeFile, "0\n"); err == nil {
			var now string
			if now, err = d.files.read(at, freezeFile); err == nil && now == "0" {
				return nil
			}
		}
		if err != nil && errors.Is(d.lost(at, err), fs.ErrNotExist) {
			return nil // its processes have gone with it
		}
	}
	return fmt.Errorf("cgroup %s: it stays frozen: write 0 to its %s: %v", at, freezeFile, err)
}

// thawWhenRebound thaws while a write of cpuset.mems is still under way, once the kernel has
// let cpuset_mutex go: what it does then is to look through all pages for those outside the new
// nodes, and to move them. The nodes in effect show that the write has the mutex; a write of
// cpuset.cpus.partition that changes nothing waits for it. The returned function says that the
// write has ended.
func (f *freeze) thawWhenRebound(cgroup string, then topology.CPUSet) (written func()) {
	d := f.d
	member := func() bool {
		p, err := d.files.read(cgroup, partitionFile)
		return err == nil && p == "member"
	}
	if !member() {
		return func() {}
	}
	stop := make(chan struct{})
	go func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(reboundEvery):
			}
			now, err := d.files.read(cgroup, string(plan.CgroupMems)+".effective")
			if err != nil {
				return
			}
			if set, err := topology.ParseCPUSet(now); err == nil && set.Equal(then) {
				break
			}
		}
		if member() && d.files.write(cgroup, partitionFile, "member\n") == nil {
			f.thawOnce()
		}
	}()
	return func() { close(stop) }
}

// freezable is the cgroup that is frozen to freeze another: itself, or the next above it that
// has all threads of its processes and whose freezer root alone can write. The owner of a
// delegated cgroup could thaw that between the freeze and the write.
func (d *Driver) freezable(cgroup string) (string, error) {
	own, err := d.ownCgroup()
	if err != nil {
		return "", fmt.Errorf("cgroup %s: not frozen, because homenode may be in it: %v", cgroup, err)
	}
	for at := cgroup; at != "/"; at = path.Dir(at) {
		kind, err := d.files.read(at, typeFile)
		if err != nil {
			return "", d.lost(cgroup, err)
		}
		private, err := d.files.private(at, freezeFile)
		if errors.Is(err, fs.ErrNotExist) {
			if gone := d.present(cgroup, nil); gone != nil {
				return "", gone
			}
			return "", plan.Unsupported("setting the memory nodes of a cgroup with processes",
				freezeFile+", which Linux 5.2 brings")
		}
		if err != nil {
			return "", d.lost(cgroup, err)
		}
		if kind == "threaded" || !private {
			continue
		}
		if own == at || strings.HasPrefix(own, at+"/") {
			return "",
				fmt.Errorf("cgroup %s: its memory nodes are not changed: homenode itself is in %s and would freeze "+
					"with it", cgroup, at)
		}
		return at, nil
	}
	return "",
		fmt.Errorf("cgroup %s: its memory nodes are not changed: users other than root can thaw it and every cgroup "+
			"above it", cgroup)
}

// ownCgroup is the cgroup that homenode runs in.
func (d *Driver) ownCgroup() (string, error) {
	text, err := fs.ReadFile(d.root, "proc/self/cgroup")
	if err != nil {
		return "", err
	}
	return unified(text)
}

// unified is the cgroup v2 of a process, of its file cgroup.
func unified(text []byte) (string, error) {
	if at := proc.Cgroup(text); at != "" {
		return at, nil
	}
	return "", fmt.Errorf("no cgroup v2 in %q", text)
}

// alone waits until no other write of the driver has frozen the cgroup, one above or one below.
func (d *Driver) alone(ctx context.Context, at string) (free func(), err error) {
	for {
		d.mu.Lock()
		var other chan struct{}
		for x, done := range d.freezes {
			if x == at || strings.HasPrefix(x, at+"/") || strings.HasPrefix(at, x+"/") {
				other = done
				break
			}
		}
		if other == nil {
			done := make(chan struct{})
			d.freezes[at] = done
			d.mu.Unlock()
			return func() {
				d.mu.Lock()
				delete(d.freezes, at)
				d.mu.Unlock()
				close(done)
			}, nil
		}
		d.mu.Unlock()
		select {
		case <-other:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// private reports whether the owner of homenode alone can write a file.
func (t tree) private(cgroup, file string) (bool, error) {
	f, err := t.open(cgroup, file, unix.O_PATH)
	if err != nil {
		return false, err
	}
	defer f.Close()
	var s unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &s); err != nil {
		return false, &fs.PathError{Op: "stat", Path: f.Name(), Err: err}
	}
	return int(s.Uid) == os.Geteuid() && s.Mode&0o022 == 0, nil
}
