package config

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/homenode/homenode/core/control"
	"github.com/homenode/homenode/core/irq"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// Validate checks every value once; the error names the key, the value and what
// would do.
func (c *Config) Validate() error {
	switch {
	case c.Period < 100*time.Millisecond || c.Period > time.Hour:
		return fmt.Errorf("period: %v; want 100ms to 1h", c.Period)
	case c.StateDir == "":
		return errors.New("state_dir: empty; want a folder")
	case c.Socket == "":
		return errors.New("socket: empty; want a path")
	case !(c.Policy.Overcommit >= 1 && c.Policy.Overcommit <= 100):
		return fmt.Errorf("policy.overcommit: %v; want 1 to 100", c.Policy.Overcommit)
	case !(c.Policy.MemoryOvercommit >= 1 && c.Policy.MemoryOvercommit <= 10):
		return fmt.Errorf("policy.memory_overcommit: %v; want 1 to 10", c.Policy.MemoryOvercommit)
	case c.Policy.MemoryOvercommit > 1 && c.Partition != plan.OnlyShared:
		return fmt.Errorf("policy.memory_overcommit: %v; want partition: shared with it: the memory of dedicated "+
			"work has to be there", c.Policy.MemoryOvercommit)
	case !(c.Manage.MinCPU >= 0 && c.Manage.MinCPU <= 1e6):
		return fmt.Errorf("manage.min_cpu: %v; want a number of CPUs, 0 or more", c.Manage.MinCPU)
	case c.Manage.MinAge < 0 || c.Manage.MinAge > time.Hour:
		return fmt.Errorf("manage.min_age: %v; want 0 (any age) to 1h", c.Manage.MinAge)
	case c.Move.Bandwidth < 1<<20:
		return fmt.Errorf("move.bandwidth: %s; want at least 1MiB a second", words.Bytes(int64(c.Move.Bandwidth)))
	case c.Move.Batch < 1 || c.Move.Batch > 65536:
		return fmt.Errorf("move.batch: %d; want 1 to 65536 pages", c.Move.Batch)
	case !(c.Move.PauseHost >= 0 && c.Move.PauseHost <= 100):
		return fmt.Errorf("move.pause_host: %v; want 0 (never) to 100 percent", c.Move.PauseHost)
	case !(c.Move.PauseWorkload >= 0 && c.Move.PauseWorkload <= 100):
		return fmt.Errorf("move.pause_workload: %v; want 0 (never) to 100 percent", c.Move.PauseWorkload)
	}
	switch m := &c.Metrics; {
	case m.Workloads < 0 || m.Workloads > 100_000:
		return fmt.Errorf("metrics.workloads: %d; want 0 to 100000", m.Workloads)
	case m.Textfile != "" && (!filepath.IsAbs(m.Textfile) || filepath.Ext(m.Textfile) != ".prom"):
		return fmt.Errorf("metrics.textfile: %q; want a whole path that ends in .prom, which node_exporter reads",
			m.Textfile)
	}
	if c.Border != "" {
		return errors.New("border: is called partition now; the values are the same")
	}
	if err := c.Partition.Check(); err != nil {
		return fmt.Errorf("partition: %w", err)
	}
	if err := cmp.Or(c.Balance.validate(), c.Share.validate(), c.Tiers.validate(), c.Record.validate()); err != nil {
		return err
	}
	if err := c.API.validate(); err != nil {
		return fmt.Errorf("api.%w", err)
	}
	err := cmp.Or(
		oneOf("mode", c.Mode, Observe, Enforce),
		oneOf("policy.packing", c.Policy.Packing, plan.Adaptive, plan.Pack, plan.Spread),
		oneOf("irq", cmp.Or(c.IRQ, control.InterruptsOff),
			control.InterruptsOff, control.InterruptsReport, control.InterruptsPlace),
		oneOf("caches", c.Caches, plan.CachesOff, plan.CachesReport, plan.CachesPlace),
		oneOf("irq_queues", c.IRQQueues, irq.KeepQueues, irq.MatchQueues),
		oneOf("recognise", c.Recognise, control.RecogniseOff, control.RecogniseSuggest, control.RecogniseApply),
		oneOf("libvirt.manage", c.Libvirt.Manage, NoGuests, MarkedGuests, NovaGuests, AllGuests),
		oneOf("proxmox.manage", c.Proxmox.Manage, NoGuests, MarkedGuests, AllGuests),
		oneOf("incus.manage", c.Incus.Manage, NoGuests, MarkedGuests, AllGuests),
		oneOf("containers.manage", c.Containers.Manage, NoPods, ObservePods, AllPods),
		oneOf("containers.best_effort", c.Containers.BestEffort, workload.Shared, workload.Batch),
		patterns("manage.include", c.Manage.Include),
		patterns("manage.exclude", c.Manage.Exclude),
		c.Containers.Annotations.validate(),
	)
	if err != nil {
		return err
	}
	if !strings.HasPrefix(c.Containers.Socket, "/") {
		return fmt.Errorf("containers.socket: %q; want a path from /", c.Containers.Socket)
	}
	for i := range c.Workloads {
		if err := c.Workloads[i].validate(); err != nil {
			return fmt.Errorf("workloads[%d].%w", i, err)
		}
		asks := slices.ContainsFunc(c.Workloads[i].SLO,
			func(g workload.Goal) bool { return g.From == workload.FromQuery })
		if asks && c.Share.Prometheus == "" {
			return fmt.Errorf("workloads[%d].slo: of.query: no server to ask; set share.prometheus, such as "+
				"http://localhost:9090", i)
		}
	}
	return c.Share.validatePrometheus()
}

func (s *Share) validatePrometheus() error {
	if s.Prometheus == "" {
		return nil
	}
	u, err := url.Parse(s.Prometheus)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
		return fmt.Errorf("share.prometheus: %q; want an address such as http://localhost:9090", s.Prometheus)
	}
	return nil
}

// Goals returns the goals whose metrics a command, a file or a query has, each once.
func (c *Config) Goals() (out []workload.Goal) {
	for i := range c.Workloads {
		for _, g := range c.Workloads[i].SLO {
			key := g.Key()
			same := func(o workload.Goal) bool { return o.Key() == key }
			if g.From.Named() && !slices.ContainsFunc(out, same) {
				out = append(out, g)
			}
		}
	}
	return out
}

// oneOf checks a value that is one of a few words.
func oneOf[T ~string](key string, value T, want ...T) error {
	if slices.Contains(want, value) {
		return nil
	}
	names := make([]string, len(want))
	for i, w := range want {
		names[i] = string(w)
	}
	last := len(names) - 1
	return fmt.Errorf("%s: %q; want %s or %s", key, value, strings.Join(names[:last], ", "), names[last])
}

// Suits checks the reserve and the CPUs that stay idle against the machine, which Validate does
// not know. What leaves nothing to place work on is an error; what only reaches beyond it is told.
func (c *Config) Suits(h *topology.Host) (odd []string, err error) {
	reserved := c.Reserve.CPUs
	if !h.Online.Empty() && h.Online.SubsetOf(reserved) {
		return nil, fmt.Errorf("reserve.cpus: %v; leaves no CPU of %v for work", reserved, h.Online)
	}
	if beyond := reserved.Minus(h.Online.Union(h.Offline)); !beyond.Empty() {
		odd = append(odd, fmt.Sprintf("reserve.cpus: CPUs %v are not on this host", beyond))
	}
	if _, err := c.ForPlacing(h); err != nil {
		return nil, err
	}
	largest, least := 0, 0     // CPUs of a node
	var small topology.NodeSet // none of them has a CPU left for batch work
	for _, n := range h.Nodes {
		k := n.CPUs.Intersect(h.Online).Len()
		largest = max(largest, k)
		if k > 0 && c.Share.Idle >= k {
			small.Add(n.ID)
			least = cmp.Or(min(least, k), k)
		}
	}
	want := func(k int) string {
		if k < 2 {
			return "want 0 (an eighth of a node's CPUs)"
		}
		return fmt.Sprintf("want %d or less, or 0 (an eighth of a node's CPUs)", k-1)
	}
	switch {
	case small.Empty():
	case c.Share.Enabled && c.Share.Idle >= largest:
		return nil,
			fmt.Errorf("share.idle_cpus: %d; the largest node of this host has %s, and batch work needs some of "+
				"them; %s", c.Share.Idle, words.Count(largest, "CPU"), want(largest))
	default:
		odd = append(odd,
			fmt.Sprintf("share.idle_cpus: %d; there are no more CPUs on %s, and batch work has next to none there; %s",
				c.Share.Idle, words.Nodes(small), want(least)))
	}
	for i := range c.Workloads {
		for _, near := range c.Workloads[i].Near {
			dev := near.Device
			named := dev != "" && dev != workload.AnyGPU
			if named && h.Device(dev) == nil {
				odd = append(odd, fmt.Sprintf("workloads[%d].near: this host has no device %q", i, dev))
			}
		}
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
	switch memory := words.Bytes(int64(c.Reserve.Memory)); {
	case with > 0 && full.Len() == with:
		return nil, fmt.Errorf("reserve.memory: %s on every node; leaves no memory for work, the largest node has %s",
			memory, words.Size(most))
	case !full.Empty():
		odd = append(odd, fmt.Sprintf("reserve.memory: %s leaves no memory on nodes %v", memory, full))
	}
	return odd, nil
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
	if _, err := r.tier(); err != nil {
		return err
	}
	if len(r.Labels) > 0 && strings.HasPrefix(r.Match, "vm:") {
		return fmt.Errorf("labels: pods have labels, and %s names guests; leave one out", r.Match)
	}
	if err := r.boundLabels(); err != nil {
		return err
	}
	if r.Importance != nil && (*r.Importance < 0 || *r.Importance > 100) {
		return fmt.Errorf("importance: %d; want 0 to 100", *r.Importance)
	}
	if r.CPUs < 0 || r.CPUs > topology.MaxID {
		return fmt.Errorf("cpus: %d; want 0 (from what it uses) or more", r.CPUs)
	}
	if r.Isolated && r.Class != workload.Dedicated {
		return errors.New("isolated: true goes with class: dedicated")
	}
	if err := r.SLO.Check(); err != nil {
		return fmt.Errorf("slo: %w", err)
	}
	for i := range r.SLO {
		if _, err := regexp.Compile(r.SLO[i].Match); err != nil {
			return fmt.Errorf("slo: of.pattern: %w", err)
		}
	}
	switch r.SMT {
	case "", workload.SMTPrefer, workload.SMTIsolate, workload.SMTRequire:
		return nil
	}
	return fmt.Errorf("smt: %q; want prefer, isolate or require", r.SMT)
}
