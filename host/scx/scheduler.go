package scx

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"
)

// DefaultPin is where in bpffs the scheduler is pinned.
const DefaultPin = "/sys/fs/bpf/homenode"

// Options says what to load.
type Options struct {
	Pin    string // a folder in bpffs that Attach makes; "" is DefaultPin
	Config Config
	Object []byte // the BPF object; nil is the embedded one for this kernel
}

// Scheduler is one that is loaded.
type Scheduler struct {
	pin      string
	maps     map[string]*ebpf.Map
	programs map[string]*ebpf.Program
	links    map[string]link.Link // empty until Attach
	below    *below               // below another scheduler; nil: it is the root
	told     tables               // by Set, the last time
}

const (
	linkScheduler = "scheduler"
	linkSwitch    = "switch"
)

// Load has the kernel verify the programs and fills the maps. Nothing is attached, so another
// scheduler that runs goes on. A Support that is not OK, as error, says why it can not be.
func Load(ctx context.Context, o Options) (*Scheduler, error) {
	s := Probe()
	if s.Kind != Supported && s.Kind != Other {
		return nil, s
	}
	if err := o.Config.check(); err != nil {
		return nil, fmt.Errorf("scheduler: %w", err)
	}
	kernel, err := btf.LoadKernelSpec()
	if err != nil {
		return nil, Support{Kind: NoBTF, Why: fmt.Sprintf("read the kernel's types: %v", err), err: err}
	}
	g, err := choose(kernel)
	if err == nil && s.Kind == Other && s.Below {
		g = generationBelow
	}
	if err != nil {
		return nil, Support{Kind: NoFunctions, Why: err.Error(), err: err}
	}
	if o.Object != nil {
		g.object = o.Object
	}
	spec, err := g.spec()
	if err != nil {
		return nil, err
	}
	if isBelow(spec) != (s.Kind == Other) {
		return nil, s.unfit()
	}
	if err := prepare(spec, kernel, o.Config); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	load := loadRoot
	if isBelow(spec) {
		load = loadBelow
	}
	sched, err := load(ctx, o, spec)
	if err != nil {
		return nil, err
	}
	if sched.pin == "" {
		sched.pin = DefaultPin
	}
	if err := sched.Set(o.Config); err != nil {
		sched.Close()
		return nil, err
	}
	return sched, nil
}

// loadRoot has the kernel verify the programs.
func loadRoot(_ context.Context, o Options, spec *ebpf.CollectionSpec) (*Scheduler, error) {
	c, err := ebpf.NewCollection(spec)
	if err != nil {
		return nil, refusal(err)
	}
	return &Scheduler{pin: o.Pin, maps: c.Maps, programs: c.Programs, links: map[string]link.Link{}}, nil
}

// refusal says that the kernel took no program.
func refusal(err error) Support {
	return Support{Kind: Refused, Why: fmt.Sprintf("the kernel refuses the scheduler: %v", oneLine(err)), err: err}
}

// unfit is why a scheduler cannot be loaded that is made for the other case.
func (s Support) unfit() error {
	if s.Kind == Other {
		return s
	}
	return Support{Kind: Refused, Why: "the scheduler is made to run below another one, and none is loaded"}
}

// prepare sets what depends on this kernel and on the configuration, before the kernel has it.
func prepare(spec *ebpf.CollectionSpec, kernel *btf.Spec, c Config) error {
	var flags *btf.Enum
	more := uint64(0)
	if kernel.TypeByName("scx_ops_flags", &flags) == nil {
		for _, v := range flags.Values {
			if v.Name == "SCX_OPS_ENQ_MIGRATION_DISABLED" { // Linux 6.14
				more = v.Value
			}
		}
	}
	return errors.Join(
		putMember(spec, "timeout_ms", 4, func(b []byte) { native.PutUint32(b, uint32(c.timeout().Milliseconds())) }),
		putMember(spec, "flags", 8, func(b []byte) { native.PutUint64(b, native.Uint64(b)|more) }),
	)
}

// putMember changes a member of what the kernel is given.
func putMember(spec *ebpf.CollectionSpec, name string, size int, change func([]byte)) error {
	m := spec.Maps["share"]
	if m == nil || len(m.Contents) != 1 {
		return fmt.Errorf("embedded scheduler: no struct_ops map")
	}
	value, ok := m.Contents[0].Value.([]byte)
	ops, isStruct := btf.As[*btf.Struct](m.Value)
	if !ok || !isStruct {
		return fmt.Errorf("embedded scheduler: struct_ops map of an unknown form")
	}
	value = slices.Clone(value) // a copy of a specification has the same
	for _, f := range ops.Members {
		if f.Name == name {
			change(value[f.Offset.Bytes():][:size])
			m.Contents[0].Value = value
			return nil
		}
	}
	return fmt.Errorf("embedded scheduler: no member %s", name)
}

// Attach begins, and pins all of it. Where another scheduler is enabled the error is a Support
// of Kind Other, and that one goes on.
func (s *Scheduler) Attach() (err error) {
	if len(s.links) > 0 {
		return fmt.Errorf("attach scheduler: it is attached")
	}
	if err := os.Mkdir(s.pin, 0o700); errors.Is(err, os.ErrExist) {
		// What is there belongs to one that has ended, or to one that still runs.
		if old, err := Adopt(s.pin); err == nil {
			still := old.enabled()
			old.Close()
			if still {
				return Support{Kind: Other, Why: "attach scheduler: one is pinned at " + s.pin, Running: true,
					Scheduler: Name}
			}
		}
		if err := removePins(s.pin); err != nil {
			return fmt.Errorf("attach scheduler: %w", err)
		}
		if err := os.Mkdir(s.pin, 0o700); err != nil {
			return fmt.Errorf("attach scheduler: %w", err)
		}
	} else if err != nil {
		return fmt.Errorf("attach scheduler: %w", err)
	}
	defer func() {
		if err != nil {
			s.dropLinks()
			removePins(s.pin)
		}
	}()
	for name, m := range s.maps {
		if err := m.Pin(filepath.Join(s.pin, "map_"+name)); err != nil {
			return fmt.Errorf("attach scheduler: %w", err)
		}
	}
	for name, p := range s.programs {
		if err := p.Pin(filepath.Join(s.pin, "program_"+name)); err != nil {
			return fmt.Errorf("attach scheduler: %w", err)
		}
	}
	if s.below != nil { // each cgroup begins with AttachTo
		return s.pinBelow()
	}
	// First what tells which CPUs are idle, then what goes by it.
	begin := func(name string, l link.Link, err error) error {
		if err != nil {
			return err
		}
		s.links[name] = l
		return l.Pin(filepath.Join(s.pin, "link_"+name))
	}
	l, err := link.AttachTracing(link.TracingOptions{Program: s.programs["switched"]})
	if err := begin(linkSwitch, l, err); err != nil {
		return fmt.Errorf("attach scheduler: watch switches: %w", err)
	}
	l, err = link.AttachStructOps(link.StructOpsOptions{Map: s.maps["share"]})
	if errors.Is(err, unix.EBUSY) {
		name := running(os.DirFS("/"))
		return Support{Kind: Other, Why: fmt.Sprintf("another sched_ext scheduler is loaded: %s", name),
			Scheduler: name, err: err}
	}
	if err := begin(linkScheduler, l, err); err != nil {
		return fmt.Errorf("attach scheduler: %w", err)
	}
	return nil
}

// Adopt finds the scheduler that is pinned at pin; where none is, the error is fs.ErrNotExist.
// Whether it still runs is in its Stats.
func Adopt(pin string) (*Scheduler, error) {
	if pin == "" {
		pin = DefaultPin
	}
	if err := own(pin); err != nil {
		return nil, fmt.Errorf("adopt scheduler: %w", err)
	}
	entries, err := os.ReadDir(pin)
	if err != nil {
		return nil, fmt.Errorf("adopt scheduler: %w", err)
	}
	s := &Scheduler{pin: pin, maps: map[string]*ebpf.Map{}, programs: map[string]*ebpf.Program{},
		links: map[string]link.Link{}}
	for _, e := range entries {
		path := filepath.Join(pin, e.Name())
		kind, name, _ := strings.Cut(e.Name(), "_")
		var err error
		switch kind {
		case "map":
			s.maps[name], err = ebpf.LoadPinnedMap(path, nil)
		case "program":
			s.programs[name], err = ebpf.LoadPinnedProgram(path, nil)
		case "link":
			s.links[name], err = link.LoadPinnedLink(path, nil)
		}
		if err != nil {
			s.Close()
			return nil, fmt.Errorf("adopt scheduler: %w", err)
		}
	}
	if s.adoptedBelow() {
		return s, nil
	}
	for _, name := range []string{linkScheduler, linkSwitch} {
		if s.links[name] == nil {
			s.Close()
			return nil, fmt.Errorf("adopt scheduler: %s: no link %s: %w", pin, name, os.ErrNotExist)
		}
	}
	return s, nil
}

// own reports what speaks against it that this program, or another of its user, has made a folder.
func own(folder string) error {
	var st unix.Stat_t
	if err := unix.Lstat(folder, &st); err != nil {
		return &os.PathError{Op: "lstat", Path: folder, Err: err}
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR || int(st.Uid) != os.Geteuid() || st.Mode&0o022 != 0 {
		return fmt.Errorf("%s is no folder of user %d alone", folder, os.Geteuid())
	}
	return nil
}

// Set changes what the scheduler goes by, at once. Timeout is not changed.
func (s *Scheduler) Set(c Config) error {
	if err := c.check(); err != nil {
		return fmt.Errorf("set scheduler: %w", err)
	}
	t := c.tables()
	if len(t.llcs) > maxLLCs {
		return fmt.Errorf("set scheduler: %d last-level caches: at most %d", len(t.llcs), maxLLCs)
	}
	var old kernelSettings
	if err := s.maps["settings"].Lookup(uint32(0), &old); err != nil {
		return fmt.Errorf("set scheduler: %w", err)
	}
	// Queues that had tasks stay served.
	for len(t.llcs) < int(old.NrLLCs) {
		t.llcs = append(t.llcs, kernelLLC{})
	}
	t.settings.NrLLCs = uint32(len(t.llcs))
	for len(t.places) < int(old.NrCPUs) {
		t.places = append(t.places, kernelPlace{})
	}
	t.settings.NrCPUs = max(t.settings.NrCPUs, old.NrCPUs)
	nodes, moved := t.differs(s.told)
	if len(nodes) == 0 && !moved {
		return nil
	}
	s.told = tables{} // unknown, should one of the writes fail
	var errs []error
	for _, n := range nodes {
		errs = append(errs, s.maps["nodes"].Put(uint32(n), t.nodes[n]))
	}
	if moved {
		settings := t.settings
		settings.Generation = old.Generation + 1 // every CPU is looked at
		errs = append(errs, putAll(s.maps["llcs"], t.llcs), putAll(s.maps["places"], t.places),
			s.maps["settings"].Put(uint32(0), settings))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("set scheduler: %w", err)
	}
	s.told = t
	return s.nudge()
}

// differs tells what is not as before: the indices of nodes, whose bounds the scheduler reads anew each time
// it asks, and whether anything else does, for which it must look at every CPU and who waits.
func (t tables) differs(before tables) (nodes []int, moved bool) {
	for i, n := range t.nodes {
		if i >= len(before.nodes) || n != before.nodes[i] {
			nodes = append(nodes, i)
		}
	}
	return nodes, t.settings != before.settings || !slices.Equal(t.places, before.places) ||
		!slices.Equal(t.llcs, before.llcs)
}

func putAll[T any](m *ebpf.Map, values []T) error {
	for i := range values {
		if err := m.Put(uint32(i), values[i]); err != nil {
			return err
		}
	}
	return nil
}

// SetTiers says which cgroups have a tier of their own; those that are not named have none any
// more. It holds from the next time that a task is queued or switched to, at once for those that run or wait.
func (s *Scheduler) SetTiers(cgroups []Cgroup) error {
	if len(cgroups) > maxCgroups {
		return fmt.Errorf("set tiers: %d cgroups: at most %d", len(cgroups), maxCgroups)
	}
	m := s.maps["tiers"]
	want := map[uint64]kernelTier{}
	for _, c := range cgroups {
		n, ok := tierNumber[c.Tier]
		if !ok {
			return fmt.Errorf("set tiers: cgroup %d: no tier %q", c.ID, c.Tier)
		}
		want[c.ID] = kernelTier{Nodes: nodeBits(c.Nodes), Tier: n}
	}
	var gone []uint64
	var id uint64
	var had kernelTier
	changed := false
	for it := m.Iterate(); it.Next(&id, &had); {
		if now, stays := want[id]; !stays {
			gone = append(gone, id)
		} else if now == had {
			delete(want, id)
		}
	}
	for _, id := range gone {
		if err := m.Delete(id); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
			return fmt.Errorf("set tiers: %w", err)
		}
		changed = true
	}
	for id, t := range want {
		if err := m.Put(id, t); err != nil {
			return fmt.Errorf("set tiers: %w", err)
		}
		changed = true
	}
	if !changed {
		return nil
	}
	var k kernelSettings
	if err := s.maps["settings"].Lookup(uint32(0), &k); err != nil {
		return fmt.Errorf("set tiers: %w", err)
	}
	k.Generation++
	if err := s.maps["settings"].Put(uint32(0), k); err != nil {
		return fmt.Errorf("set tiers: %w", err)
	}
	return s.nudge()
}

// nudge has the kernel side look at the change now.
func (s *Scheduler) nudge() error {
	if len(s.links) == 0 || s.below != nil { // below another one it looks at each tick
		return nil
	}
	if _, err := s.programs["nudge"].Run(&ebpf.RunOptions{}); err != nil {
		return fmt.Errorf("nudge scheduler: %w", err)
	}
	return nil
}

// enabled says whether this scheduler, and not another, is the one that runs.
func (s *Scheduler) enabled() bool {
	b, err := os.ReadFile("/sys/kernel/sched_ext/state")
	if err != nil || strings.TrimSpace(string(b)) != "enabled" {
		return false
	}
	var e kernelEnding
	if s.maps["endings"].Lookup(uint32(0), &e) != nil || e.Kind != 0 {
		return false
	}
	if s.below != nil {
		_, err := os.Lstat(filepath.Join(s.pin, markBelow)) // without its folder it takes no more cgroups: see Detach
		return err == nil && running(os.DirFS("/")) != Name && takesSubs(os.DirFS("/"))
	}
	return running(os.DirFS("/")) == Name
}

// Detach ends the scheduler and takes its pins away. What is SCHED_EXT runs in the fair class then.
func (s *Scheduler) Detach() error {
	s.dropLinks()
	return removePins(s.pin)
}

func (s *Scheduler) dropLinks() {
	s.dropLink(linkScheduler) // before what tells it which CPUs are idle
	for name := range maps.Clone(s.links) {
		s.dropLink(name)
	}
	// The kernel ends a scheduler whose last link is gone beside; wait for that, so that the next can begin.
	for range 500 {
		b, err := os.ReadFile("/sys/kernel/sched_ext/state")
		if err != nil || strings.TrimSpace(string(b)) != "disabling" {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func removePins(pin string) error {
	os.Remove(filepath.Join(pin, markBelow)) // first, as it was the last: what is left of the folder is not adopted
	if err := os.RemoveAll(pin); err != nil {
		return fmt.Errorf("remove pins: %w", err)
	}
	return nil
}

// Close gives the descriptors back. A scheduler that is attached goes on.
func (s *Scheduler) Close() error {
	var all []error
	closing := func(c io.Closer) { all = append(all, c.Close()) }
	for _, l := range s.links {
		closing(l)
	}
	for _, m := range s.maps {
		closing(m)
	}
	for _, p := range s.programs {
		closing(p)
	}
	s.links = nil
	s.maps = nil
	s.programs = nil
	return errors.Join(all...)
}

// oneLine is an error of the verifier without its log.
func oneLine(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}
