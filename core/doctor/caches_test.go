package doctor

import (
	"strings"
	"testing"
	"testing/fstest"

	"github.com/homenode/homenode/core/measure"
	"github.com/homenode/homenode/core/topology"
)

// cached adds last-level caches to a machine.
func cached(d *measure.Document, state topology.CacheAwareState, from string, caches ...string) *measure.Document {
	for _, cpus := range caches {
		d.Host.Caches = append(d.Host.Caches, measure.LastCache{CPUs: set(cpus), Level: 3, Bytes: 32 << 20})
	}
	d.Settings = &measure.Settings{CacheAware: &topology.CacheAware{State: state, From: from}}
	return d
}

// lines adds latencies of cache lines, ns: within a cache and between two.
func lines(d *measure.Document, own, other float64) *measure.Document {
	cpus := []int{0, 1, 8, 9}
	d.C2C = []measure.C2C{{Unit: "ns", CPUs: cpus, Median: table(
		[]float64{-1, own, other, other}, []float64{own, -1, other, other},
		[]float64{other, other, -1, own}, []float64{other, other, own, -1})}}
	return d
}

func TestCaches(t *testing.T) {
	one := func() *measure.Document { return machine([]string{"0-15"}, []string{"0-15"}, []float64{64}) }
	two := func() *measure.Document {
		return machine([]string{"0-7", "8-15"}, []string{"0-7", "8-15"}, []float64{64})
	}
	const file = "/sys/kernel/debug/sched/llc_balancing/enabled"
	for _, c := range []struct {
		name string
		doc  *measure.Document
		want []string // in each finding in turn, what it says and advises
	}{
		{"two caches, not measured", cached(one(), topology.CacheAwareOn, file, "0-7", "8-15"), []string{
			"node0 has 2 last-level caches, of up to 32 MiB and 8 CPUs each; the cost of a cache line from another cache of the node is not measured | measure it",
			"on (" + file + "): the kernel keeps the threads of one process in one cache"}},
		{"measured", lines(cached(one(), topology.CacheAwareNone, "Linux 6.12", "0-7", "8-15"), 25, 110), []string{
			"costs 110 ns from another cache of the node and 25 ns from its own (×4.4), measured core to core | work of up to 8 CPUs",
			"this kernel has none (Linux 6.12)"}},
		{"measured, and flat", lines(cached(one(), topology.CacheAwareOff, file, "0-7", "8-15"), 100, 102), []string{
			"costs the same from its own cache (100 ns) and from another (102 ns) | threads that exchange data gain nothing here",
			"off (" + file + ") | echo 1 >"}},
		{"pairs of other nodes say nothing", lines(cached(two(), topology.CacheAwareUnknown, "", "0-3", "4-7", "8-15"), 25, 110), []string{
			"node0 has 2 last-level caches, of up to 32 MiB and 4 CPUs each; the cost of a cache line from another cache of the node is not measured",
			"not known"}},
		{"built in", cached(one(), topology.CacheAwareBuiltIn, "/proc/config.gz", "0-7", "8-15"), []string{
			"node0 has 2", "built in (/proc/config.gz) and on unless switched off"}},
		{"one node, one cache", cached(one(), topology.CacheAwareNone, "Linux 6.12", "0-15"), []string{
			"one node with one last-level cache: all CPUs are equally near | homenode still gives dedicated work"}},
		{"one node, no cache known", cached(one(), topology.CacheAwareNone, "Linux 6.12"), []string{"the kernel lists no last-level cache"}},
		{"one node, a cache for each CPU", cached(one(), topology.CacheAwareNone, "Linux 6.12", "0", "1", "2"), []string{"a last-level cache for each core"}},
		{"two nodes, one cache each", cached(two(), topology.CacheAwareOn, file, "0-7", "8-15"), nil},
		{"two nodes, one cache for both", cached(two(), topology.CacheAwareOn, file, "0-15"), nil},
		{"an older document", one(), nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := factsOf(c.doc, DefaultLimits).caches()
			if len(got) != len(c.want) {
				t.Fatalf("%d findings, want %d: %+v", len(got), len(c.want), got)
			}
			for i, f := range got {
				says, advice, _ := strings.Cut(c.want[i], " | ")
				if !strings.Contains(f.Says, says) || !strings.Contains(f.Advice, advice) {
					t.Errorf("%s: %s\n→ %s\nwant %s", f.Subject, f.Says, f.Advice, c.want[i])
				}
				if rank(f.Severity) > rank(measure.Info) {
					t.Errorf("%s is a %s: caches are no fault", f.Subject, f.Severity)
				}
			}
		})
	}
}

// A noisy measurement is no evidence.
func TestCachesOfNoisyMachine(t *testing.T) {
	d := run(lines(cached(machine([]string{"0-15"}, []string{"0-15"}, []float64{64}), topology.CacheAwareOn, "f", "0-7", "8-15"), 25, 110))
	d.Run.Rejected = 90
	if got := factsOf(d, DefaultLimits).caches(); !strings.Contains(got[0].Says, "is not measured") {
		t.Errorf("%+v", got)
	}
}

// What is captured of a machine says the same of its cache-aware scheduling, without the builder's name.
func TestCaptureCacheAware(t *testing.T) {
	const release = "7.3.4-builder"
	for _, c := range []struct {
		files map[string]string
		want  topology.CacheAwareState
	}{
		{map[string]string{topology.CacheAwareFile: "1"}, topology.CacheAwareOn},
		{map[string]string{topology.CacheAwareFile: "0"}, topology.CacheAwareOff},
		{map[string]string{"boot/config-" + release: "CONFIG_SCHED_CACHE=y\nCONFIG_LOCALVERSION=\"builder\"\n"}, topology.CacheAwareBuiltIn},
		{map[string]string{"boot/config-" + release: "CONFIG_SMP=y\n"}, topology.CacheAwareNone},
		{nil, topology.CacheAwareUnknown},
	} {
		fsys := fstest.MapFS{"proc/sys/kernel/osrelease": {Data: []byte(release)}}
		for name, text := range c.files {
			fsys[name] = &fstest.MapFile{Data: []byte(text)}
		}
		taken := fstest.MapFS{}
		for _, leaf := range Capture(fsys) {
			taken[leaf.Name] = &fstest.MapFile{Data: leaf.Data}
			if strings.Contains(leaf.Name+string(leaf.Data), "builder") {
				t.Errorf("%s: %s", leaf.Name, leaf.Data)
			}
		}
		if got := topology.ReadCacheAware(taken); got.State != c.want {
			t.Errorf("%v: captured as %+v, want %s", c.files, got, c.want)
		}
	}
	d := &measure.Document{Host: measure.Host{Kernel: release},
		Settings: &measure.Settings{CacheAware: &topology.CacheAware{State: topology.CacheAwareBuiltIn, From: "/boot/config-" + release}}}
	if got := Anonymous(d).Settings.CacheAware.From; got != "/boot/config-7.3.4" {
		t.Errorf("from %s", got)
	}
	if d.Settings.CacheAware.From != "/boot/config-"+release {
		t.Error("the document itself was changed")
	}
}
