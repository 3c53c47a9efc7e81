package daemon

import (
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"time"

	"github.com/bmatcuk/doublestar/v4"
	"github.com/dustin/go-humanize"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/topology/strict"
	"github.com/homenode/homenode/core/workload"
)

// Mode says whether the daemon acts.
type Mode string

// Modes.
const (
	Observe Mode = "observe" // looks, plans, explains; changes nothing. The default
	Enforce Mode = "enforce" // carries the plan out
)

// Size is a number of bytes, written "64MiB" (binary) or "64MB" (decimal).
type Size uint64

// UnmarshalText reads a size.
func (s *Size) UnmarshalText(text []byte) error {
	n, err := humanize.ParseBytes(string(text))
	if err != nil || n > 1<<60 {
		return fmt.Errorf("size %q: want a number with a unit, such as 64MiB", text)
	}
	*s = Size(n)
	return nil
}

// KiB is the size in KiB, rounded up.
func (s Size) KiB() topology.KiB { return topology.KiB((s + 1023) / 1024) }

// Config is the configuration file. Every key may be left out; NewConfig gives
// the defaults.
type Config struct {
	Mode          Mode          `yaml:"mode"`            // observe or enforce
	Period        time.Duration `yaml:"period"`          // time between two looks, 100ms to 1h
	StateDir      string        `yaml:"state_dir"`       // journal, homes and history
	Socket        string        `yaml:"socket"`          // where the API listens
	SocketGroup   string        `yaml:"socket_group"`    // members may change things; "" is root alone
	OthersMayRead bool          `yaml:"others_may_read"` // everyone may look
	RestoreOnStop bool          `yaml:"restore_on_stop"` // a clean stop undoes everything
	// MeasureAtStart measures latencies between nodes when nothing kept fits the
	// hardware. Off, because it reads memory at full speed for some seconds, which
	// whoever starts a service does not expect.
	MeasureAtStart bool `yaml:"measure_at_start"`

	Reserve struct {
		CPUs   topology.CPUSet `yaml:"cpus"`   // host CPUs: no workload runs there
		Memory Size            `yaml:"memory"` // kept free on every node
	} `yaml:"reserve"`
	Policy struct {
		Overcommit float64      `yaml:"overcommit"` // shared vCPUs a shared CPU may carry, 1 to 100
		Packing    plan.Packing `yaml:"packing"`    // adaptive, pack or spread
	} `yaml:"policy"`
	Manage struct {
		MinMemory Size     `yaml:"min_memory"` // a workload smaller than this …
		MinCPU    float64  `yaml:"min_cpu"`    // … that also uses less CPU than this is left alone
		Include   []string `yaml:"include"`    // glob patterns on workload ID or name; empty is all
		Exclude   []string `yaml:"exclude"`    // glob patterns; stronger than include
	} `yaml:"manage"`
	Move struct {
		Bandwidth Size `yaml:"bandwidth"` // bytes a second that all page moves together may take
		Batch     int  `yaml:"batch"`     // pages moved by one call, 1 to 65536
		// Moves rest while tasks wait for memory this many percent of the time (PSI "some",
		// avg10), 0 to 100; 0 is never. No default suits a host that always reclaims.
		PauseHost     float64 `yaml:"pause_host"`     // all tasks of the machine
		PauseWorkload float64 `yaml:"pause_workload"` // the workload's cgroup
	} `yaml:"move"`
	Balance Balance `yaml:"balance"`
	Record  Record  `yaml:"record"`
	// IRQ is what is done about the interrupts of NICs and NVMe drives; "" is report in
	// observe mode and off in enforce mode.
	IRQ       Interrupts `yaml:"irq"`
	Libvirt   Libvirt    `yaml:"libvirt"`
	Workloads []Rule     `yaml:"workloads"` // the first rule that matches counts
}

// Libvirt says what the daemon does with the guests of libvirt.
type Libvirt struct {
	Manage GuestsToManage `yaml:"manage"` // none, marked or all
}

// Rule gives wishes to the workloads that match.
type Rule struct {
	Match      string             `yaml:"match"` // glob pattern on workload ID or name; ** crosses slashes
	Class      workload.Class     `yaml:"class"`
	Importance *int               `yaml:"importance"` // 0 to 100
	CPUs       int                `yaml:"cpus"`       // 0: from what it uses
	Memory     Size               `yaml:"memory"`     // 0: from what it holds
	SMT        workload.SMTPolicy `yaml:"smt"`
	Near       []string           `yaml:"near"` // devices by kernel name or PCI address
}

// NewConfig is the default configuration.
func NewConfig() Config {
	var c Config
	c.Mode = Observe
	c.Period = 2 * time.Second // ESXi's Numa.RebalancePeriod: long enough to see CPU use, short enough to act
	c.StateDir = "/var/lib/homenode"
	c.Socket = "/run/homenode/homenode.sock"
	p := plan.DefaultPolicy()
	c.Policy.Overcommit, c.Policy.Packing = p.Overcommit, p.Packing
	c.Manage.MinMemory = 64 << 20 // below this a move gains less than it costs to think about
	c.Manage.MinCPU = 0.2
	c.Move.Bandwidth = 256 << 20 // about a hundredth of one node's memory bandwidth on today's servers
	c.Move.Batch = 4096          // 16 MiB of small pages; see host/process, DefaultBatch
	// A tenth of the time is felt; machines at rest show below one percent. The
	// workload itself may bear more: one at its memory.high always reclaims a little.
	c.Move.PauseHost, c.Move.PauseWorkload = 10, 20
	c.Balance = newBalance()
	c.Libvirt.Manage = MarkedGuests // what somebody else defined is theirs until they say otherwise
	c.Record.MaxSize = 256 << 20    // two days of 100 workloads; see docs/balancing.md
	return c
}

// maxConfig bounds the configuration file.
const maxConfig = 1 << 20

// ParseConfig reads a configuration over the defaults given; name is for errors.
func ParseConfig(r io.Reader, name string, defaults Config) (Config, error) {
	c := defaults
	text, err := io.ReadAll(io.LimitReader(r, maxConfig+1))
	if err != nil {
		return c, fmt.Errorf("%s: %w", name, err)
	}
	if len(text) > maxConfig {
		return c, fmt.Errorf("%s: larger than 1 MiB; this is no configuration file", name)
	}
	lines, err := strict.Keys(text, &c, map[reflect.Type]string{
		reflect.TypeFor[Size]():            "a size with a unit, such as 64MiB",
		reflect.TypeFor[topology.CPUSet](): "CPUs in list format, such as 0-3,8",
	})
	if err != nil {
		return c, fmt.Errorf("%s: %w", name, err)
	}
	if err := strict.YAML(text, &c); err != nil {
		return c, fmt.Errorf("%s: %w", name, err)
	}
	if c.Mode == "" && c.Period == 0 && c.StateDir == "" { // the library clears the struct for an empty document
		c = defaults
	}
	if err := c.Validate(); err != nil {
		key, _, _ := strings.Cut(err.Error(), ": ")
		return c, fmt.Errorf("%s: line %d: %w", name, lines.Of(key), err)
	}
	return c, nil
}

// Validate checks every value once; the error names the key, the value and what
// would do.
func (c *Config) Validate() error {
	switch {
	case c.Mode != Observe && c.Mode != Enforce:
		return fmt.Errorf("mode: %q; want observe or enforce", c.Mode)
	case c.Period < 100*time.Millisecond || c.Period > time.Hour:
		return fmt.Errorf("period: %v; want 100ms to 1h", c.Period)
	case c.StateDir == "":
		return errors.New("state_dir: empty; want a folder")
	case c.Socket == "":
		return errors.New("socket: empty; want a path")
	case !(c.Policy.Overcommit >= 1 && c.Policy.Overcommit <= 100):
		return fmt.Errorf("policy.overcommit: %v; want 1 to 100", c.Policy.Overcommit)
	case c.Policy.Packing != plan.Adaptive && c.Policy.Packing != plan.Pack && c.Policy.Packing != plan.Spread:
		return fmt.Errorf("policy.packing: %q; want adaptive, pack or spread", c.Policy.Packing)
	case !(c.Manage.MinCPU >= 0 && c.Manage.MinCPU <= 1e6):
		return fmt.Errorf("manage.min_cpu: %v; want a number of CPUs, 0 or more", c.Manage.MinCPU)
	case c.Move.Bandwidth < 1<<20:
		return fmt.Errorf("move.bandwidth: %s; want at least 1MiB a second", humanize.IBytes(uint64(c.Move.Bandwidth)))
	case c.Move.Batch < 1 || c.Move.Batch > 65536:
		return fmt.Errorf("move.batch: %d; want 1 to 65536 pages", c.Move.Batch)
	case !(c.Move.PauseHost >= 0 && c.Move.PauseHost <= 100):
		return fmt.Errorf("move.pause_host: %v; want 0 (never) to 100 percent", c.Move.PauseHost)
	case !(c.Move.PauseWorkload >= 0 && c.Move.PauseWorkload <= 100):
		return fmt.Errorf("move.pause_workload: %v; want 0 (never) to 100 percent", c.Move.PauseWorkload)
	}
	if err := c.Balance.validate(); err != nil {
		return err
	}
	if err := c.Record.validate(); err != nil {
		return err
	}
	switch c.IRQ {
	case "", IRQOff, IRQReport, IRQPlace:
	default:
		return fmt.Errorf("irq: %q; want off, report or place", c.IRQ)
	}
	switch c.Libvirt.Manage {
	case NoGuests, MarkedGuests, AllGuests:
	default:
		return fmt.Errorf("libvirt.manage: %q; want none, marked or all", c.Libvirt.Manage)
	}
	if err := patterns("manage.include", c.Manage.Include); err != nil {
		return err
	}
	if err := patterns("manage.exclude", c.Manage.Exclude); err != nil {
		return err
	}
	for i := range c.Workloads {
		if err := c.Workloads[i].validate(); err != nil {
			return fmt.Errorf("workloads[%d].%w", i, err)
		}
	}
	return nil
}

// suits checks the reserve against the machine, which Validate does not know. What
// leaves nothing to place work on is an error; what only reaches beyond it is told.
func (c *Config) suits(h *topology.Host) (told []string, err error) {
	reserved := c.Reserve.CPUs
	if !h.Online.Empty() && h.Online.SubsetOf(reserved) {
		return nil, fmt.Errorf("reserve.cpus: %v; leaves no CPU of %v for work", reserved, h.Online)
	}
	if beyond := reserved.Minus(h.Online.Union(h.Offline)); !beyond.Empty() {
		told = append(told, fmt.Sprintf("reserve.cpus: CPUs %v are not on this host", beyond))
	}
	var full topology.NodeSet
	most := topology.KiB(0)
	with := 0
	for _, n := range h.Nodes {
		if n.Memory == 0 {
			continue
		}
		with++
		most = max(most, n.Memory)
		if n.Memory != topology.None && c.Reserve.Memory.KiB() >= n.Memory {
			full.Add(n.ID)
		}
	}
	switch memory := humanize.IBytes(uint64(c.Reserve.Memory)); {
	case with > 0 && full.Len() == with:
		return nil, fmt.Errorf("reserve.memory: %s on every node; leaves no memory for work, the largest node has %s", memory, humanize.IBytes(uint64(most)<<10))
	case !full.Empty():
		told = append(told, fmt.Sprintf("reserve.memory: %s leaves no memory on nodes %v", memory, full))
	}
	return told, nil
}

func patterns(key string, patterns []string) error {
	for i, p := range patterns {
		if !doublestar.ValidatePattern(p) {
			return fmt.Errorf("%s[%d]: bad pattern %q; want one such as /system.slice/**", key, i, p)
		}
	}
	return nil
}

func (r *Rule) validate() error {
	if r.Match == "" {
		return errors.New("match: not given; want a pattern on ID or name, such as /system.slice/**")
	}
	if !doublestar.ValidatePattern(r.Match) {
		return fmt.Errorf("match: bad pattern %q; want one such as /system.slice/**", r.Match)
	}
	if r.Class != "" {
		if _, err := workload.ParseClass(string(r.Class)); err != nil {
			return fmt.Errorf("class: %w", err)
		}
	}
	if r.Importance != nil && (*r.Importance < 0 || *r.Importance > 100) {
		return fmt.Errorf("importance: %d; want 0 to 100", *r.Importance)
	}
	if r.CPUs < 0 || r.CPUs > topology.MaxID {
		return fmt.Errorf("cpus: %d; want 0 (from what it uses) or more", r.CPUs)
	}
	switch r.SMT {
	case "", workload.SMTPrefer, workload.SMTIsolate, workload.SMTRequire:
		return nil
	}
	return fmt.Errorf("smt: %q; want prefer, isolate or require", r.SMT)
}

// ForPlacing is the part that core needs.
func (c *Config) ForPlacing() plan.Policy { return c.policy() }

func (c *Config) policy() plan.Policy {
	return plan.Policy{
		Reserved:       c.Reserve.CPUs,
		ReservedMemory: c.Reserve.Memory.KiB(),
		Overcommit:     c.Policy.Overcommit,
		Packing:        c.Policy.Packing,
	}
}

// matches reports whether a pattern fits a workload's ID or its name.
func matches(pattern string, o *workload.Observation) bool {
	return doublestar.MatchUnvalidated(pattern, string(o.ID)) || doublestar.MatchUnvalidated(pattern, o.Name)
}

// rule is the first rule that fits, or nil.
func (c *Config) rule(o *workload.Observation) *Rule {
	for i := range c.Workloads {
		if matches(c.Workloads[i].Match, o) {
			return &c.Workloads[i]
		}
	}
	return nil
}

// ofLibvirt reports whether a cgroup is a guest's of libvirt, whose own cgroups
// nobody else may write: machine-qemu\x2d1\x2dNAME.scope under systemd, else
// qemu-1-NAME.libvirt-qemu (vir_cgroup.c of libvirt).
func ofLibvirt(id workload.ID) bool {
	for part := range strings.SplitSeq(string(id), "/") {
		if strings.HasPrefix(part, `machine-qemu\x2d`) || strings.HasSuffix(part, ".libvirt-qemu") {
			return true
		}
	}
	return false
}

// excluded says why a workload is not the daemon's to place, or "".
func (c *Config) excluded(o *workload.Observation) string {
	if o.Kind != workload.InGuest && (ofLibvirt(o.ID) || ofLibvirt(workload.ID(o.Cgroup))) {
		return "libvirt runs this guest and would set its CPUs and memory nodes again; homenode places guests through libvirt (docs/vm.md)."
	}
	for _, p := range c.Manage.Exclude {
		if matches(p, o) {
			return fmt.Sprintf("The configuration excludes it (manage.exclude: %s).", p)
		}
	}
	if len(c.Manage.Include) == 0 {
		return ""
	}
	for _, p := range c.Manage.Include {
		if matches(p, o) {
			return ""
		}
	}
	return "The configuration does not include it (manage.include)."
}
