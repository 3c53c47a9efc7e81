package scx

import (
	"crypto/sha256"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
)

// TestObjectsAreOfTheSource: the objects that are committed are made of the source that is.
func TestObjectsAreOfTheSource(t *testing.T) {
	b, err := os.ReadFile("bpf/SHA256SUMS")
	if err != nil {
		t.Fatal(err)
	}
	var named []string
	for line := range strings.Lines(string(b)) {
		sum, name, _ := strings.Cut(strings.TrimSpace(line), "  ")
		content, err := os.ReadFile("bpf/" + name)
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprintf("%x", sha256.Sum256(content)); got != sum {
			t.Errorf("bpf/%s is not the one the objects were made with: run make generate", name)
		}
		if strings.HasSuffix(name, ".o") && strings.Contains(string(content), "/host/scx/bpf/") {
			t.Errorf("bpf/%s has the folder it was made in: elsewhere the same source makes another version", name)
		}
		named = append(named, name)
	}
	if want := []string{"build.sh", "kernel.h", "share.h", "tiers.h", "share.bpf.c", "sub.bpf.c", "root.bpf.c", "share.v1.o", "share.v2.o", "sub.v3.o", "../../../e2e/guest/share/root.v3.o"}; !slices.Equal(named, want) {
		t.Errorf("sums of %v, want %v", named, want)
	}
}

// TestTypes: Go and C mean the same bytes.
func TestTypes(t *testing.T) {
	for _, g := range append(slices.Clone(generations), generationBelow) {
		spec, err := g.spec()
		if err != nil {
			t.Fatal(err)
		}
		for name, sample := range map[string]any{
			"settings": kernelSettings{}, "places": kernelPlace{}, "nodes": kernelNode{}, "llcs": kernelLLC{}, "tiers": kernelTier{},
			"cpus_now": cpuNow{}, "nodes_now": nodeNow{}, "llcs_now": llcNow{}, "endings": kernelEnding{},
		} {
			same(t, g.name+" "+name, spec.Maps[name], reflect.TypeOf(sample))
		}
		for name, want := range map[string]int{"counts": int(nrCounts), "overlaps": buckets, "places": maxCPUs, "nodes": maxNodes, "llcs": maxLLCs, "tiers": maxCgroups} {
			if got := spec.Maps[name].MaxEntries; got != uint32(want) {
				t.Errorf("%s: map %s has %d entries, Go means %d", g.name, name, got, want)
			}
		}
		e, ok := btf.As[*btf.Enum](spec.Maps["counts"].Key)
		if !ok {
			t.Fatalf("%s: counters are numbered by %v", g.name, spec.Maps["counts"].Key)
		}
		for i, v := range e.Values {
			if i < len(countNames) && v.Name != countNames[i] || v.Value != uint64(i) {
				t.Errorf("%s: counter %d is %s, Go means %s", g.name, i, v.Name, countNames[i])
			}
		}
	}
}

// countNames is how share.h calls the counters, in Go's order.
var countNames = [nrCounts]string{
	refusedExpelled: "REFUSED_EXPELLED", refusedBudget: "REFUSED_BUDGET", refusedBuffer: "REFUSED_BUFFER", refusedNodes: "REFUSED_NODES", refusedOnline: "REFUSED_ONLINE",
	guardSlices: "GUARD_SLICES", guardBeside: "GUARD_BESIDE", strictStarts: "STRICT_STARTS", strictStops: "STRICT_STOPS",
	kickExpel: "KICK_EXPEL", kickLate: "KICK_LATE", kickIdle: "KICK_IDLE", kickGuardEnd: "KICK_GUARD_END", starts: "STARTS",
	enqueued: "ENQUEUED", enqueuedOwn: "ENQUEUED_OWN", enqueuedFree: "ENQUEUED_FREE", stolenNode: "STOLEN_NODE", stolenRemote: "STOLEN_REMOTE", kept: "KEPT", pulses: "PULSES",
	kickHandOver: "KICK_HAND_OVER",
}

func same(t *testing.T, what string, m *ebpf.MapSpec, sample reflect.Type) {
	t.Helper()
	s, ok := btf.As[*btf.Struct](m.Value)
	if !ok || int(s.Size) != int(sample.Size()) || len(s.Members) > sample.NumField() {
		t.Errorf("%s: %v in C, %v of %d bytes in Go", what, m.Value, sample, sample.Size())
		return
	}
	for i, f := range s.Members {
		g := sample.Field(i)
		short := strings.ReplaceAll(f.Name, "_", "")
		if f.Offset.Bytes() != uint32(g.Offset) || !strings.EqualFold(short, g.Name) && g.Name != "Reserved" {
			t.Errorf("%s: field %d is %s at %d in C, %s at %d in Go", what, i, f.Name, f.Offset.Bytes(), g.Name, g.Offset)
		}
	}
}
