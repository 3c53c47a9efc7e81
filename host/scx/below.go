package scx

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"github.com/homenode/homenode/core/share"
	"github.com/homenode/homenode/core/workload"
)

// Below is how a Scheduler runs below another one of sched_ext (Linux 7.3 and later): one
// sub-scheduler for each cgroup of batch work, all with the same maps. The other one, the root,
// decides when a CPU may ask it for a task.
type below struct {
	spec *ebpf.CollectionSpec // with what depends on this kernel and the configuration; nil when adopted
}

// ownMaps is the maps of which each sub-scheduler has its own.
var ownMaps = []string{"share", "arena", "pulses", "sub_cpus", ".rodata"}

// arenaAt is the address of the arena, for a process that would map it: the kernel asks for one, and none does.
const arenaAt = 1 << 44

// The names of a cgroup's sub-scheduler begin so; its ID follows. The kernel stops a timer whose
// map no process and no pin holds.
const (
	linkBelow  = "sub-"
	pulseBelow = "pulse-"
)

const subs = "sys/kernel/sched_ext/root/sub"

// takesSubs is whether the scheduler that is enabled lets others have cgroups: its
// folder has one for them then (scx_alloc_and_add_sched, kernel/sched/ext/ext.c).
func takesSubs(root fs.FS) bool {
	i, err := fs.Stat(root, subs)
	return err == nil && i.IsDir()
}

// isBelow is whether a scheduler is made to run below another one.
func isBelow(spec *ebpf.CollectionSpec) bool {
	m := spec.Maps["share"]
	if m == nil {
		return false
	}
	ops, ok := btf.As[*btf.Struct](m.Value)
	return ok && strings.HasSuffix(ops.Name, "_cid")
}

// loadBelow makes the maps. Programs are loaded for each cgroup: what the kernel shows to them, and
// which scheduler they belong to, it knows by program.
func loadBelow(ctx context.Context, o Options, spec *ebpf.CollectionSpec) (*Scheduler, error) {
	s := &Scheduler{pin: o.Pin, below: &below{spec: spec}, programs: map[string]*ebpf.Program{},
		links: map[string]link.Link{}}
	common := spec.Copy()
	common.Programs, common.Variables = nil, nil
	maps.DeleteFunc(common.Maps, func(name string, _ *ebpf.MapSpec) bool { return slices.Contains(ownMaps, name) })
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	c, err := ebpf.NewCollection(common)
	if err != nil {
		return nil, refusal(err)
	}
	s.maps = c.Maps
	return s, nil
}

// markBelow is a second pin of a map, and the last one: one that is pinned in part is not taken for one of these.
const markBelow = "map_below"

func (s *Scheduler) pinBelow() error {
	again, err := s.maps["settings"].Clone()
	if err != nil {
		return fmt.Errorf("attach scheduler: %w", err)
	}
	defer again.Close()
	if err := again.Pin(filepath.Join(s.pin, markBelow)); err != nil {
		return fmt.Errorf("attach scheduler: %w", err)
	}
	return nil
}

// readMaps is the maps that this package reads or writes.
var readMaps = []string{"settings", "places", "nodes", "llcs", "tiers", "cpus_now", "nodes_now", "llcs_now", "endings",
	"counts", "overlaps"}

// adoptedBelow reports whether what was found in a folder runs below another scheduler. A folder that was removed in
// part is no such one.
func (s *Scheduler) adoptedBelow() bool {
	mark := s.maps["below"]
	missing := func(name string) bool { return s.maps[name] == nil }
	if mark == nil || slices.ContainsFunc(readMaps, missing) {
		return false
	}
	delete(s.maps, "below")
	mark.Close()
	s.below = &below{}
	return true
}

// setObject gives an adopted scheduler what it is made of, so that it can have more cgroups.
func (s *Scheduler) setObject(object []byte, c Config) error {
	if s.below == nil || s.below.spec != nil {
		return nil
	}
	spec, err := ebpf.LoadCollectionSpecFromReader(bytes.NewReader(object))
	if err != nil {
		return fmt.Errorf("read scheduler: %w", err)
	}
	kernel, err := btf.LoadKernelSpec()
	if err != nil {
		return fmt.Errorf("read the kernel's types: %w", err)
	}
	if err := prepare(spec, kernel, c); err != nil {
		return err
	}
	s.below.spec = spec
	return nil
}

// AttachTo gives a cgroup, by its inode, a sub-scheduler. A cgroup that has one keeps it.
func (s *Scheduler) AttachTo(cgroup uint64) (err error) {
	name := fmt.Sprint(linkBelow, cgroup)
	if s.has(cgroup) {
		return nil
	}
	s.dropLink(name)
	if s.below.spec == nil {
		return fmt.Errorf("attach scheduler to cgroup %d: it is not known what it is made of", cgroup)
	}
	spec := s.below.spec.Copy()
	spec.Maps["arena"].MapExtra = arenaAt
	if err := putMember(spec, "sub_cgroup_id", 8, func(b []byte) { native.PutUint64(b, cgroup) }); err != nil {
		return err
	}
	if own := spec.Variables["own_cgroup"]; own != nil { // older ones have none: the end of one ends all
		if err := own.Set(cgroup); err != nil {
			return fmt.Errorf("attach scheduler to cgroup %d: %w", cgroup, err)
		}
	}
	common := maps.Clone(s.maps)
	maps.DeleteFunc(common, func(name string, _ *ebpf.Map) bool { return strings.HasPrefix(name, pulseBelow) })
	c, err := ebpf.NewCollectionWithOptions(spec, ebpf.CollectionOptions{MapReplacements: common})
	if err != nil {
		return refusal(err)
	}
	defer c.Close() // the link holds what it needs, but for the pulse
	if len(s.links) == 0 {
		s.noneRuns()
	}
	l, err := link.AttachStructOps(link.StructOpsOptions{Map: c.Maps["share"]})
	if err != nil {
		return fmt.Errorf("attach scheduler to cgroup %d: %w", cgroup, why(err))
	}
	if !alive(cgroup) { // only the ending says why
		l.Close()
		return fmt.Errorf("attach scheduler to cgroup %d: %s", cgroup, s.endOf(cgroup))
	}
	pulse := fmt.Sprint(pulseBelow, cgroup)
	s.links[name] = l
	s.maps[pulse] = c.DetachMap("pulses")
	err = errors.Join(s.maps[pulse].Pin(filepath.Join(s.pin, "map_"+pulse)),
		l.Pin(filepath.Join(s.pin, "link_"+name)))
	if err != nil {
		s.DetachFrom(cgroup)
		return fmt.Errorf("attach scheduler to cgroup %d: %w", cgroup, err)
	}
	return nil
}

// noneRuns has the nodes count no CPU with batch work: the first sub-scheduler begins, and whatever became of
// those before, nothing of theirs runs.
func (s *Scheduler) noneRuns() {
	for i := range uint32(maxNodes) {
		var now nodeNow
		if s.maps["nodes_now"].Lookup(i, &now) == nil && now.Batch != 0 {
			now.Batch = 0
			s.maps["nodes_now"].Put(i, now)
		}
	}
}

// why says in words what the kernel means.
func why(err error) error {
	switch {
	case errors.Is(err, unix.EOPNOTSUPP):
		return fmt.Errorf("the scheduler above it takes none: %w", err)
	case errors.Is(err, unix.EBUSY):
		return fmt.Errorf("the cgroup, or one in it, has another scheduler: %w", err)
	}
	return err
}

// alive is whether the kernel has a sub-scheduler for a cgroup. Tests replace it.
var alive = func(cgroup uint64) bool {
	_, err := os.Stat(filepath.Join("/", subs, fmt.Sprint("sub-", cgroup)))
	return err == nil
}

// has is whether a cgroup has one of this scheduler's.
func (s *Scheduler) has(cgroup uint64) bool {
	return s.links[fmt.Sprint(linkBelow, cgroup)] != nil && alive(cgroup)
}

// DetachFrom takes the sub-scheduler of a cgroup away; the one above has its threads then.
func (s *Scheduler) DetachFrom(cgroup uint64) { s.dropLink(fmt.Sprint(linkBelow, cgroup)) }

func (s *Scheduler) dropLink(name string) {
	if l := s.links[name]; l != nil {
		l.Unpin()
		l.Close()
		delete(s.links, name)
	}
	if id, of := strings.CutPrefix(name, linkBelow); of && s.maps[pulseBelow+id] != nil {
		s.maps[pulseBelow+id].Unpin()
		s.maps[pulseBelow+id].Close()
		delete(s.maps, pulseBelow+id)
	}
}

// endOf returns how the sub-scheduler of one cgroup ended, and forgets it; those of others stay to be reported.
func (s *Scheduler) endOf(cgroup uint64) string {
	var e kernelEnding
	if ended := s.maps["ended"]; ended != nil && ended.Lookup(cgroup, &e) == nil {
		ended.Delete(cgroup)
	}
	return e.exit().String()
}

// takeEnded returns how the sub-schedulers of cgroups ended since it was last called, by the cgroups' IDs. The others
// go on.
func (s *Scheduler) takeEnded() (map[uint64]share.SchedulerEnd, error) {
	out := map[uint64]share.SchedulerEnd{}
	ended := s.maps["ended"]
	if ended == nil {
		return out, nil
	}
	var id uint64
	var e kernelEnding
	for all := ended.Iterate(); all.Next(&id, &e); {
		out[id] = e.exit().end()
	}
	for id := range out {
		if err := ended.Delete(id); err != nil {
			return nil, fmt.Errorf("read how schedulers of cgroups ended: %w", err)
		}
	}
	return out, nil
}

// prune forgets the links of cgroups that the kernel has taken the sub-scheduler from, and pulses without a link: a
// daemon was killed before it had pinned that.
func (s *Scheduler) prune() {
	for name := range maps.Clone(s.maps) {
		id, pulse := strings.CutPrefix(name, pulseBelow)
		if pulse && s.links[linkBelow+id] == nil {
			s.dropLink(linkBelow + id)
		}
	}
	for name := range maps.Clone(s.links) {
		if id, err := strconv.ParseUint(strings.TrimPrefix(name, linkBelow), 10, 64); err == nil && !alive(id) {
			s.dropLink(name)
		}
	}
}

// mostBelow bounds the cgroups that have a sub-scheduler: each has programs of its own, and data for each CPU.
const mostBelow = 64

// equip gives an adopted scheduler that runs below another one what it needs for more cgroups. Where
// that fails, AttachTo says so.
func (d *Driver) equip() {
	object, err := d.object(d.version)
	if err != nil {
		return
	}
	if config, err := d.config(nil); err == nil {
		d.runs.setObject(object, config)
	}
}

// collectEnded keeps how sub-schedulers ended until it was reported.
func (d *Driver) collectEnded() error {
	d.runs.prune()
	ends, err := d.runs.takeEnded()
	if d.untold == nil {
		d.untold = map[uint64]share.SchedulerEnd{}
	}
	maps.Copy(d.untold, ends)
	return err
}

// endedBelow is how the sub-schedulers of some cgroups ended since it was last reported.
func (d *Driver) endedBelow(cgroups []string) (map[string]share.SchedulerEnd, error) {
	if d.runs.below == nil {
		return nil, nil
	}
	if err := d.collectEnded(); err != nil || len(d.untold) == 0 {
		return nil, err
	}
	out := map[string]share.SchedulerEnd{}
	for _, cgroup := range cgroups {
		id, err := inode(d.dir(cgroup))
		if end, ok := d.untold[id]; err == nil && ok {
			out[cgroup] = end
		}
	}
	return out, nil
}

// attached is whether a cgroup, or one that it is in, has a sub-scheduler of the one that runs.
func (d *Driver) attached(cgroup string) bool {
	for at := filepath.Clean("/" + cgroup); at != "/"; at = filepath.Dir(at) {
		if id, err := inode(d.dir(at)); err == nil && d.runs.has(id) {
			return true
		}
	}
	return false
}

// attach gives a cgroup a sub-scheduler where homenode's runs below another one. Those of cgroups in it are taken
// away first: the kernel puts none between two.
func (d *Driver) attach(cgroup string, id uint64) error {
	if d.runs == nil || d.runs.below == nil || d.attached(cgroup) {
		return nil
	}
	if err := d.collectEnded(); err != nil {
		return err
	}
	if end, ok := d.untold[id]; ok {
		return fmt.Errorf("cgroup %s: the kernel ended its scheduler: %v", cgroup, &end)
	}
	inner := map[string]uint64{}
	others := map[string]uint64{}
	for _, other := range *d.cgroups.Load() {
		at, err := inode(d.dir(other))
		switch {
		case err != nil || !d.runs.has(at):
		case strings.HasPrefix(other, cgroup+"/"):
			inner[other] = at
		default:
			others[other] = at
		}
	}
	if len(d.runs.links)-len(inner) >= mostBelow {
		gives := yields(slices.Sorted(maps.Keys(others)), cgroup)
		if gives == "" {
			return fmt.Errorf("cgroup %s: %d cgroups have a scheduler below another one: at most %[2]d", cgroup,
				mostBelow)
		}
		d.runs.DetachFrom(others[gives])
	}
	for _, at := range inner {
		d.runs.DetachFrom(at)
	}
	err := d.runs.AttachTo(id)
	if err != nil {
		for _, at := range inner {
			err = errors.Join(err, d.runs.AttachTo(at))
		}
	}
	return err
}

// yields returns which of the cgroups that have a sub-scheduler makes room for another one; "" is none. Ordinary users
// can make any number of cgroups, so theirs come last and equally many of each user, as in share.SchedulerConfig.Bound.
func yields(have []string, cgroup string) (gives string) {
	byUser := map[int][]string{}
	for _, other := range have {
		if user := workload.UserOf(other); workload.Ordinary(user) {
			byUser[user] = append(byUser[user], other)
		}
	}
	most := 0
	if user := workload.UserOf(cgroup); workload.Ordinary(user) {
		most = len(byUser[user]) + 1
	}
	for _, user := range slices.Sorted(maps.Keys(byUser)) {
		theirs := byUser[user]
		if len(theirs) > most {
			most = len(theirs)
			gives = theirs[most-1]
		}
	}
	return gives
}
