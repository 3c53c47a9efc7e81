package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/cpuset"
	cdi "tags.cncf.io/container-device-interface/specs-go"

	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// What is written says a version of CDI that has what is in it, or no runtime takes it: names
// that begin with a digit, as most UIDs do, are of a later one.
func TestCDIVersion(t *testing.T) {
	for _, uid := range []types.UID{"1966114d-4172-4858-85fb-8c728847cf13", "b966114d-4172-4858-85fb-8c728847cf13"} {
		d := cdiFolder(t.TempDir())
		if err := d.write(&claim{UID: uid, Bookings: []booking{{ID: "claim:x/0", Request: "home"}}}); err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(filepath.Join(string(d), "homenode.io-claim-"+string(uid)+".json"))
		if err != nil {
			t.Fatal(err)
		}
		var spec cdi.Spec
		if err := json.Unmarshal(data, &spec); err != nil {
			t.Fatal(err)
		}
		if err := cdi.ValidateVersion(&spec); err != nil {
			t.Errorf("%s: %v", uid, err)
		}
	}
}

// pinned reads the environment of a container as virt-launcher does (KubeVirt's VEP 152): the one variable that
// begins with DRA_CPUSET_ and has the UID of the claim, its value as the kernel writes lists. ok is false where
// there is none, and it falls back to its cgroup.
func pinned(t *testing.T, env []string, uid types.UID) (cpus []int, ok bool) {
	t.Helper()
	for _, e := range env {
		name, list, _ := strings.Cut(e, "=")
		of, is := strings.CutPrefix(name, "DRA_CPUSET_")
		if !is {
			continue
		}
		set, err := cpuset.Parse(list)
		if err != nil || ok || of != string(uid) {
			t.Fatalf("%q: %v; want one variable of claim %s", env, err, uid)
		}
		cpus, ok = set.List(), true
	}
	return cpus, ok
}

func TestCPUSetOfClaim(t *testing.T) {
	booked := func(request, cpus string) booking {
		set, err := topology.ParseSet[topology.CPUID](cpus)
		if err != nil {
			t.Fatal(err)
		}
		return booking{ID: workload.ID("claim:x/" + cpus), Request: request, Given: set}
	}
	for _, tt := range []struct {
		name     string
		bookings []booking
		want     []int // nil: no variable
	}{
		{"one node", []booking{booked("cpus", "2-3")}, []int{2, 3}},
		{"two nodes, with gaps", []booking{booked("cpus", "0-2"), booked("cpus", "14-15")}, []int{0, 1, 2, 14, 15}},
		{"with memory", []booking{booked("cpus", "7"), booked("cpus", "")}, []int{7}},
		{"memory alone", []booking{booked("cpus", "")}, nil},
		{"two requests", []booking{booked("a", "0"), booked("b", "1")}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := &claim{UID: "1966114d-4172-4858-85fb-8c728847cf13", Bookings: tt.bookings}
			d := cdiFolder(t.TempDir())
			if err := d.write(c); err != nil {
				t.Fatal(err)
			}
			data, err := os.ReadFile(d.file(c.UID))
			if err != nil {
				t.Fatal(err)
			}
			var spec cdi.Spec
			if err := json.Unmarshal(data, &spec); err != nil {
				t.Fatal(err)
			}
			for _, dev := range spec.Devices {
				got, ok := pinned(t, dev.ContainerEdits.Env, c.UID)
				if ok != (tt.want != nil) || !slices.Equal(got, tt.want) {
					t.Errorf("%q: %v %v, want %v", dev.ContainerEdits.Env, got, ok, tt.want)
				}
			}
		})
	}
}
