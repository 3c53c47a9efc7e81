package hostprep

import (
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/homenode/homenode/core/topology"
)

// unread is a machine whose settings of single CPUs are not to be read: to read some of them, the kernel interrupts
// the CPU.
type unread struct {
	files fstest.MapFS
	t     *testing.T
}

func (u unread) Stat(name string) (fs.FileInfo, error) { return u.files.Stat(name) }

func (u unread) Open(name string) (fs.File, error) {
	if strings.HasPrefix(name, "sys/devices/system/cpu/cpu") {
		u.t.Errorf("%s is read", name)
	}
	return u.files.Open(name)
}

func TestReadNoise(t *testing.T) {
	h, err := topology.FromSynthetic("package:1 node:1 core:4 pu:1")
	if err != nil {
		t.Fatal(err)
	}
	files := fstest.MapFS{
		Workqueue:                       {Data: []byte("e\n")},
		WorkqueueRequested:              {Data: []byte("f\n")},
		DefaultIRQ:                      {Data: []byte("3\n")},
		"proc/irq/24/smp_affinity_list": {Data: []byte("0-1\n")},
		"sys/kernel/irq/24/actions":     {Data: []byte("nvme0q1\n")},
		IdleLatency(0):                  {Data: []byte("0\n")},
		IdleLatency(1):                  {Data: []byte("0\n")},
		IdleLatency(7):                  {Data: []byte("0\n")}, // not online
		EnergyPreference(1):             {Data: []byte("balance_performance\n")},
		Governor(1):                     {Data: []byte("powersave\n")},
		Governor(2):                     {Data: []byte("schedutil\n")},
		TicklessCPUs:                    {Data: []byte("2-3\n")},
		"proc/irq/25/smp_affinity_list": {Data: []byte("0-1\n")}, // without a handler
	}
	want := Noise{
		Unbound:    topology.CPUs(0, 1, 2, 3),
		Default:    topology.CPUs(0, 1),
		Interrupts: []Interrupt{{Number: 24, Name: "nvme0q1", Node: topology.None, CPUs: topology.CPUs(0, 1)}},
		Latency:    topology.CPUs(0, 1),
		Preference: topology.CPUs(1),
		Governor:   topology.CPUs(2),
		Tickless:   topology.CPUs(2, 3),
	}
	if diff := cmp.Diff(want, ReadNoise(unread{files, t}, h)); diff != "" {
		t.Error(diff)
	}
	delete(files, WorkqueueRequested) // a kernel before 6.8
	if got := ReadNoise(unread{files, t}, h).Unbound; !got.Equal(topology.CPUs(1, 2, 3)) {
		t.Errorf("unbound workqueues on %s", got)
	}
	for _, none := range []string{"(null)\n", "\n", "x", "0-99999999"} {
		files[TicklessCPUs] = &fstest.MapFile{Data: []byte(none)}
		if got := ReadNoise(unread{files, t}, h).Tickless; !got.Empty() {
			t.Errorf("%q: CPUs %s without a tick", none, got)
		}
	}
}
