package config

import (
	"fmt"
	"io"
	"net/netip"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bmatcuk/doublestar/v4"
	"github.com/dustin/go-humanize"

	"github.com/homenode/homenode/core/balance"
	"github.com/homenode/homenode/core/control"
	"github.com/homenode/homenode/core/irq"
	"github.com/homenode/homenode/core/place/arrange"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/topology/strict"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
	"github.com/homenode/homenode/core/workload/specfile"
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
	if _, bare := strconv.ParseFloat(string(text), 64); err != nil || n > 1<<60 || (bare == nil && n > 0) {
		return fmt.Errorf("size %q: want a number with a unit, such as 64MiB", text)
	}
	*s = Size(n)
	return nil
}

// KiB is the size in KiB, rounded up.
func (s Size) KiB() topology.KiB { return topology.KiB((s + 1023) / 1024) }

// Config is the configuration file. Every key may be left out; New gives
// the defaults.
type Config struct {
	Mode          Mode          `yaml:"mode"`            // observe or enforce
	Period        time.Duration `yaml:"period"`          // time between two scans, 100ms to 1h
	StateDir      string        `yaml:"state_dir"`       // journal, homes and history
	Socket        string        `yaml:"socket"`          // where the API listens
	SocketGroup   string        `yaml:"socket_group"`    // members may change things; "" is root alone
	OthersMayRead bool          `yaml:"others_may_read"` // everyone may look
	API           API           `yaml:"api"`
	RestoreOnStop bool          `yaml:"restore_on_stop"` // a clean stop undoes everything
	// MeasureAtStart measures latencies between nodes when nothing kept fits the
	// hardware. Off, because it reads memory at full speed for some seconds, which
	// whoever starts a service does not expect.
	MeasureAtStart bool `yaml:"measure_at_start"`

	Reserve struct {
		CPUs   topology.CPUSet `yaml:"cpus"`   // host CPUs: no workload runs there
		Memory Size            `yaml:"memory"` // kept free on every node
	} `yaml:"reserve"`
	// Partition is which CPUs are for dedicated work alone and which for shared; any, the
	// default, gives all to both: what suits a host depends on what it sells.
	Partition plan.Partition `yaml:"partition"`
	Border    string         `yaml:"border" known:"no"` // what Partition was called
	Policy    struct {
		Overcommit float64 `yaml:"overcommit"` // shared vCPUs a shared CPU may carry, 1 to 100
		// MemoryOvercommit is how often memory is promised, 1 to 10, on a host of shared work alone
		// (partition: shared). The default is once: what is promised more often is not there.
		MemoryOvercommit float64      `yaml:"memory_overcommit"`
		Packing          plan.Packing `yaml:"packing"` // adaptive, pack or spread
	} `yaml:"policy"`
	Manage struct {
		MinMemory Size    `yaml:"min_memory"` // a workload smaller than this …
		MinCPU    float64 `yaml:"min_cpu"`    // … that also uses less CPU than this is left alone
		// MinAge: a process without a cgroup of its own that is younger is left alone, unless
		// a rule, a source or `homenode run` names it. 0 to 1h; 0 is any age.
		MinAge  time.Duration `yaml:"min_age"`
		Include []string      `yaml:"include"` // glob patterns on workload ID or name; empty is all
		Exclude []string      `yaml:"exclude"` // glob patterns; stronger than include
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
	Threads Threads `yaml:"threads"`
	Share   Share   `yaml:"share"`
	Record  Record  `yaml:"record"`
	// IRQ is what is done about the interrupts of NICs and NVMe drives; "" is report in
	// observe mode and off in enforce mode.
	IRQ control.InterruptMode `yaml:"irq"`
	// Caches is the use of the last-level caches of a node for shared work. report, because
	// keeping work in few caches helps work whose threads exchange data and may slow down other work.
	Caches plan.CacheMode `yaml:"caches"`
	// Tiers is for hosts where the kernel demotes to slower memory.
	Tiers Tiers `yaml:"tiers"`
	// DedicatedSwap: dedicated work may swap. On, because work that may not is killed when memory is
	// short.
	DedicatedSwap bool `yaml:"dedicated_swap"`
	// IRQQueues is what is done about the number of queues of NICs where interrupts are
	// placed. keep, because a change takes the link down for a moment on many cards.
	IRQQueues irq.QueueCount `yaml:"irq_queues"`
	Near      struct {
		// Learn finds by itself which devices and helpers a workload uses. Off keeps to
		// the rules' near and `homenode run --near`.
		Learn bool `yaml:"learn"`
		// Follow: a helper, such as a storage daemon, goes to the workloads that it works
		// for where that costs less. Off leaves helpers where they are.
		Follow bool `yaml:"follow"`
	} `yaml:"near"`
	// Recognise is what is done with how important work seems by its kind of load: off, suggest (explain
	// and status tell) or apply (work of importance 50 that no rule gives one has it).
	Recognise control.Recognise `yaml:"recognise"`
	Metrics   struct {
		Textfile string `yaml:"textfile"` // written for node_exporter every 15 s; "" is none
		// Workloads is how many have series of their own, 0 to 100000. The default is some
		// 12,000 series on a machine of 4 nodes, and an answer of 2 MB.
		Workloads int `yaml:"workloads"`
	} `yaml:"metrics"`
	Libvirt    Libvirt    `yaml:"libvirt"`
	Proxmox    Proxmox    `yaml:"proxmox"`
	Incus      Incus      `yaml:"incus"`
	Containers Containers `yaml:"containers"`
	Workloads  []Rule     `yaml:"workloads"` // the first rule that matches counts

	from map[string]string // the key of each value that a file gives, to the file and the position there
}

// API is the page and the API over TCP, where nothing can be changed. Off, because the socket is
// enough for commands and a port is open to more than its users.
type API struct {
	Listen string `yaml:"listen"` // "" is off; a port is that of 127.0.0.1; else ADDRESS:PORT
	// Token is a file with what readers must send; "" is one that the daemon makes beside its socket
	// where one is needed (NeedsToken).
	Token string `yaml:"token"`
	Cert  string `yaml:"cert"` // file with a certificate and its chain, PEM; "" is plain HTTP
	Key   string `yaml:"key"`  // file with its key, PEM
	// ClientCA is a file with the certificates that sign those of readers, PEM: without one of
	// these nobody is answered.
	ClientCA string `yaml:"client_ca"`
}

// Address is where to listen; "" is nowhere.
func (a *API) Address() (string, error) {
	if a.Listen == "" {
		return "", nil
	}
	if port, err := strconv.ParseUint(a.Listen, 10, 16); err == nil {
		return fmt.Sprintf("127.0.0.1:%d", port), nil
	}
	at, err := netip.ParseAddrPort(a.Listen)
	if err != nil {
		return "", fmt.Errorf("listen: %q; want a port such as 4663, or an address with a port such as 127.0.0.1:4663",
			a.Listen)
	}
	return at.String(), nil
}

// NeedsToken reports whether readers have to send a token though no file was named: whoever
// reaches the port is not known to the kernel as on the socket, so without others_may_read not
// even users of this machine may look.
func (c *Config) NeedsToken() bool {
	return c.API.Token == "" && c.API.ClientCA == "" && !c.OthersMayRead
}

func (a *API) validate() error {
	address, err := a.Address()
	if err != nil {
		return err
	}
	at, _ := netip.ParseAddrPort(address)
	switch {
	case (a.Cert == "") != (a.Key == ""):
		return fmt.Errorf("cert: %q, and key %q; want both or neither", a.Cert, a.Key)
	case a.ClientCA != "" && a.Cert == "":
		return fmt.Errorf("client_ca: %q; want cert and key, too: readers show certificates over TLS only", a.ClientCA)
	case address != "" && !at.Addr().IsLoopback() && a.Token == "" && a.ClientCA == "":
		return fmt.Errorf("listen: %q is open to other machines; want token or client_ca, too", a.Listen)
	}
	return nil
}

// Containers says what the daemon does with the containers of containerd and CRI-O.
type Containers struct {
	Manage Pods   `yaml:"manage"` // none, observe or all
	Socket string `yaml:"socket"` // of the Node Resource Interface
	// BestEffort is the class of pods that ask for neither CPUs nor memory: shared, with the
	// lowest importance, or batch, which only what nobody else uses is left to.
	BestEffort workload.Class `yaml:"best_effort"`
	// Annotations is what the authors of pods may ask for that takes from other workloads: one grant or a
	// list. Empty by default: whoever may create a pod writes its annotations.
	Annotations Grants `yaml:"annotations"`
}

// Pods says what is done with pods and containers of which the runtime tells.
type Pods string

// What may be done.
const (
	NoPods      Pods = "none"    // the runtime is not asked: containers are cgroups like others
	ObservePods Pods = "observe" // they have their names, and nothing of them is changed
	AllPods     Pods = "all"     // they get homes, each before it starts. The default
)

// Libvirt says what the daemon does with the guests of libvirt.
type Libvirt struct {
	Manage Guests `yaml:"manage"` // none, marked, nova or all
}

// Proxmox says what the daemon does with the guests of Proxmox VE.
type Proxmox struct {
	Manage Guests `yaml:"manage"` // none, marked or all
}

// Incus says what the daemon does with the instances of Incus and LXD.
type Incus struct {
	Manage Guests `yaml:"manage"` // none, marked or all
}

// Guests says which guests of libvirt the daemon places. What is left alone is reported
// with the reason, and what it holds counts.
type Guests string

// Which guests.
const (
	NoGuests     Guests = "none"   // libvirt is not asked at all
	MarkedGuests Guests = "marked" // those with homenode's mark: vm define and vm adopt write it. The default
	NovaGuests   Guests = "nova"   // those of OpenStack Nova that it has not pinned, too, as they run
	AllGuests    Guests = "all"    // all that nobody has bound, too, as shared guests; Nova's as with nova
)

// Balance says when homes that hold are given up for better ones.
type Balance struct {
	Enabled bool          `yaml:"enabled"`
	Window  time.Duration `yaml:"window"` // what is wrong must have been so for this long, 1s to 1h
	// how long a load is taken to last: a move must earn twice its cost in it, 10s to 24h
	Horizon time.Duration `yaml:"horizon"`
	// rest of a workload after a move, doubling with each within the hour, 1s to 1h
	Cooldown time.Duration `yaml:"cooldown"`
}

// Threads says what is done with the threads of work that is wider than a node.
type Threads struct {
	Divide bool `yaml:"divide"` // each is kept on one node of the home
	// Sample: where kernel.numa_balancing is 0, it is 1 for a few minutes after threads were
	// divided, so that the kernel brings the memory there is to the threads that use it.
	Sample bool `yaml:"sample"`
}

func newBalance() Balance {
	s := balance.DefaultSettings()
	return Balance{Enabled: s.Enabled, Window: s.Window, Horizon: s.Horizon, Cooldown: s.Cooldown}
}

func (b *Balance) validate() error {
	for _, x := range []struct {
		key         string
		have        time.Duration
		least, most time.Duration
	}{
		{"window", b.Window, time.Second, time.Hour},
		{"horizon", b.Horizon, 10 * time.Second, 24 * time.Hour},
		{"cooldown", b.Cooldown, time.Second, time.Hour},
	} {
		if x.have < x.least || x.have > x.most {
			return fmt.Errorf("balance.%s: %v; want %v to %v", x.key, x.have, x.least, x.most)
		}
	}
	return nil
}

// Record says how much of what happened and followed is kept (homenode replay).
type Record struct {
	MaxSize Size `yaml:"max_size"` // of all files together, at least 1MiB; 0 keeps none
}

func (r *Record) validate() error {
	if r.MaxSize != 0 && r.MaxSize < 1<<20 {
		return fmt.Errorf("record.max_size: %s; want 0 (none) or at least 1MiB", words.Bytes(int64(r.MaxSize)))
	}
	return nil
}

// interrupts is what holds in the mode of c. The default is report in observe mode and
// off in enforce mode: whoever lets homenode place work has not thereby said that it may
// turn to devices.
func (c *Config) interrupts() control.InterruptMode {
	switch {
	case c.IRQ == "" && c.Mode == Enforce:
		return control.InterruptsOff
	case c.IRQ == "", c.IRQ == control.InterruptsPlace && c.Mode == Observe:
		return control.InterruptsReport
	}
	return c.IRQ
}

// Settings is what decisions go by.
func (c *Config) Settings() control.Settings {
	s := control.Settings{
		Enforce: c.Mode == Enforce, Policy: c.policy(), Partition: c.Partition, Balance: balance.DefaultSettings(),
		Arrange: arrange.Options{MinMemory: c.Manage.MinMemory.KiB(), MinCPU: c.Manage.MinCPU,
			MoveBandwidth: int64(c.Move.Bandwidth)},
		MinAge:  c.Manage.MinAge,
		Include: c.Manage.Include, Exclude: c.Manage.Exclude, Interrupts: c.interrupts(), Queues: c.IRQQueues,
		RestoreOnStop: c.RestoreOnStop,
		Surveys:       []control.SurveyKind{control.Managers}, HelpersStay: !c.Near.Follow, Recognise: c.Recognise,
	}
	s.Grants = c.Containers.Annotations
	s.Share, s.Base = c.Share.settings(), c.Share.base()
	b := &c.Balance
	s.Balance.Enabled = b.Enabled
	s.Balance.Window = b.Window
	s.Balance.Horizon = b.Horizon
	s.Balance.Cooldown = b.Cooldown
	s.Divide, s.Sample = c.Threads.Divide, c.Threads.Sample
	s.NeverSwap = !c.DedicatedSwap
	s.Tiers = c.Tiers.settings()
	s.Weights = c.Tiers.Weights == SetWeights
	if c.Near.Learn {
		s.Surveys = append(s.Surveys, control.Links)
	}
	if s.Interrupts != control.InterruptsOff {
		s.Surveys = append(s.Surveys, control.Interrupts)
	}
	s.Surveys = append(s.Surveys, control.Isolation)
	for i := range c.Workloads {
		r := &c.Workloads[i]
		if len(r.Labels) > 0 {
			continue
		}
		s.Rules = append(s.Rules, r.Wishes())
	}
	return s
}

// Rule gives wishes to the workloads that match.
type Rule struct {
	Match string         `yaml:"match"` // glob pattern on workload ID or name; ** crosses slashes
	Class workload.Class `yaml:"class"`
	Tier  workload.Tier  `yaml:"tier"` // who gives way on one CPU: online-strict, online, normal or batch
	// BVT and QOSLevel are Tier as Group Identity (cpu.bvt_warp_ns) and openEuler
	// (cpu.qos_level) have it: 2, 1, 0, -1, -2.
	BVT        *int               `yaml:"bvt"`
	QOSLevel   *int               `yaml:"qos_level"`
	Importance *int               `yaml:"importance"` // 0 to 100
	CPUs       int                `yaml:"cpus"`       // 0: from what it uses
	Memory     Size               `yaml:"memory"`     // 0: from what it holds
	SMT        workload.SMTPolicy `yaml:"smt"`
	Isolated   bool               `yaml:"isolated"` // dedicated work: what the kernel can move goes off its CPUs
	// devices, processes, services; instead of what is learned, also when empty
	Near specfile.Nears `yaml:"near"`
	SLO  specfile.Goals `yaml:"slo"` // latency goals: batch work gives way so that they hold
	// Labels that a pod must have, all of them; what is no pod has none.
	Labels map[string]string `yaml:"labels"`
}

// Wishes is what a rule asks for. Labels are not in it: what has them is told its rules by its
// source.
func (r *Rule) Wishes() workload.Rule {
	tier, _ := r.tier()
	class, _, _ := tier.With(r.Class)
	var near []string
	for i := range r.Near {
		near = append(near, r.Near[i].String())
	}
	return workload.Rule{Match: r.Match, Class: class, Tier: tier, Importance: r.Importance, CPUs: r.CPUs,
		Memory: r.Memory.KiB(), SMT: r.SMT, Isolated: r.Isolated, Near: near, NearGiven: r.Near != nil, Goals: r.SLO}
}

// tier is the one that a rule gives by any of the keys for it; "" when none does.
func (r *Rule) tier() (workload.Tier, error) {
	tier, err := workload.ParseTier(string(r.Tier))
	if err != nil {
		return "", fmt.Errorf("tier: %w", err)
	}
	for _, x := range []struct {
		key   string
		value *int
	}{{"bvt", r.BVT}, {"qos_level", r.QOSLevel}} {
		if x.value == nil {
			continue
		}
		same, err := workload.ParseTier(strconv.Itoa(*x.value))
		switch {
		case err != nil:
			return "", fmt.Errorf("%s: %d; want 2 (online-strict), 1 (online), 0 (normal), -1 or -2 (batch)", x.key,
				*x.value)
		case tier != "" && tier != same:
			return "", fmt.Errorf("%s: %d is tier %s, and the rule has %s already", x.key, *x.value, same, tier)
		}
		tier = same
	}
	if _, _, err := tier.With(r.Class); err != nil {
		return "", err
	}
	return tier, nil
}

// Fits reports whether a rule is about what has one of some names, and labels.
func (r *Rule) Fits(names []string, labels map[string]string) bool {
	for key, value := range r.Labels {
		if labels[key] != value {
			return false
		}
	}
	return slices.ContainsFunc(names, func(n string) bool { return doublestar.MatchUnvalidated(r.Match, n) })
}

// Wishes returns the wishes of the first rule that fits what has one of some names, and labels; nil for none.
func (c *Config) Wishes(names []string, labels map[string]string) *workload.Rule {
	for i := range c.Workloads {
		if r := &c.Workloads[i]; r.Fits(names, labels) {
			wishes := r.Wishes()
			return &wishes
		}
	}
	return nil
}

// New is the default configuration.
func New() Config {
	var c Config
	c.Mode = Observe
	c.Period = 2 * time.Second // ESXi's Numa.RebalancePeriod: long enough to see CPU use, short enough to act
	c.StateDir = "/var/lib/homenode"
	c.Socket = "/run/homenode/homenode.sock"
	p := plan.DefaultPolicy()
	c.Policy.MemoryOvercommit = 1
	c.Policy.Overcommit, c.Policy.Packing = p.Overcommit, p.Packing
	c.Manage.MinMemory = 64 << 20 // below this a move gains less than it costs to think about
	c.Manage.MinCPU = 0.2
	// Most commands that are typed end sooner, and what a process takes in ten seconds is
	// moved in as many at the default bandwidth.
	c.Manage.MinAge = 10 * time.Second
	c.Move.Bandwidth = 256 << 20 // about a hundredth of one node's memory bandwidth on today's servers
	c.Move.Batch = 4096          // 16 MiB of small pages; see host/process, DefaultBatch
	// A tenth of the time is felt; machines at rest show below one percent. The
	// workload itself may bear more: one at its memory.high always reclaims a little.
	c.Move.PauseHost, c.Move.PauseWorkload = 10, 20
	c.Balance = newBalance()
	c.Threads.Divide = true
	c.Share = newShare()
	c.IRQQueues = irq.KeepQueues
	c.Caches = plan.CachesReport
	c.DedicatedSwap = true
	c.Tiers = defaultTiers()
	c.Recognise = control.RecogniseSuggest
	c.Near.Learn, c.Near.Follow = true, true
	c.Libvirt.Manage = MarkedGuests // what somebody else defined is theirs until they say otherwise
	c.Proxmox.Manage = AllGuests    // nothing of their configuration is changed
	c.Incus.Manage = AllGuests
	c.Containers = Containers{Manage: AllPods, Socket: "/var/run/nri/nri.sock", BestEffort: workload.Shared}
	c.Metrics.Workloads = 1000
	c.Record.MaxSize = 256 << 20 // two days of 100 workloads; see docs/design/balancing.md
	return c
}

// maxConfig bounds a configuration file.
const maxConfig = 1 << 20

// Layer is one file of a configuration.
type Layer struct {
	Name string `json:"name"` // for errors
	Text []byte `json:"text"`
}

// ReadLayer reads a file of a configuration.
func ReadLayer(r io.Reader, name string) (Layer, error) {
	text, err := io.ReadAll(io.LimitReader(r, maxConfig+1))
	if err != nil {
		return Layer{}, fmt.Errorf("%s: %w", name, err)
	}
	if len(text) > maxConfig {
		return Layer{}, fmt.Errorf("%s: larger than 1 MiB; this is no configuration file", name)
	}
	return Layer{name, text}, nil
}

// Merge reads layers over the defaults given. A value of a later layer replaces that of an earlier
// one; rules of a later layer are tried first.
func Merge(defaults Config, layers ...Layer) (Config, error) {
	c := defaults
	c.from = map[string]string{}
	for _, l := range layers {
		earlier := c.Workloads
		c.Workloads = nil
		lines, err := strict.YAML(l.Text, &c, strict.Wants{
			reflect.TypeFor[Size]():            "a size with a unit, such as 64MiB",
			reflect.TypeFor[topology.CPUSet](): "CPUs in list format, such as 0-3,8",
			reflect.TypeFor[specfile.Nears]():  specfile.NearsWant,
			reflect.TypeFor[specfile.Goals]():  specfile.GoalsWant,
		})
		if err != nil {
			return c, fmt.Errorf("%s: %w", l.Name, err)
		}
		c.from = mergeFrom(c.from, len(c.Workloads), l.Name, lines)
		c.Workloads = append(c.Workloads, earlier...)
	}
	return c, c.Located(c.Validate())
}

// mergeFrom is where values stand after a layer with so many rules was read over others.
func mergeFrom(before map[string]string, rules int, name string, lines strict.Lines) map[string]string {
	from := map[string]string{}
	for key, at := range before {
		if rest, ok := strings.CutPrefix(key, "workloads["); ok {
			number, rest, _ := strings.Cut(rest, "]")
			if i, err := strconv.Atoi(number); err == nil {
				key = fmt.Sprintf("workloads[%d]%s", i+rules, rest)
			}
		}
		from[key] = at
	}
	for key, at := range lines {
		from[key] = name + ": " + at
	}
	return from
}

// Located is an error that begins with its key, with the file and line where that stands.
func (c *Config) Located(err error) error {
	if err == nil || len(c.from) == 0 {
		return err
	}
	key, _, _ := strings.Cut(err.Error(), ": ")
	return fmt.Errorf("%s: %w", strict.Lines(c.from).Of(key), err)
}

// ForPlacing is the part that core needs, on h.
func (c *Config) ForPlacing(h *topology.Host) (plan.Policy, error) {
	p := c.policy()
	if err := c.Partition.Apply(h, &p); err != nil {
		return p, fmt.Errorf("partition: %w", err)
	}
	return p, nil
}

func (c *Config) policy() plan.Policy {
	return plan.Policy{
		Reserved:       c.Reserve.CPUs,
		ReservedMemory: c.Reserve.Memory.KiB(),
		Overcommit:     c.Policy.Overcommit,
		Packing:        c.Policy.Packing,
		Caches:         c.Caches,

		MemoryOvercommit: c.Policy.MemoryOvercommit,
	}
}
