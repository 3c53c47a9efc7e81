package links

import (
	"fmt"
	"maps"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// char is what a fake file is: a number of the map, or an error.
func (f *fake) char(name string) (string, error) {
	d, ok := f.devices[name]
	if !ok {
		return "", os.ErrNotExist
	}
	return d[1], nil
}

// many lists as many files more, before those that there are, as the file crowd of the tree says:
// their links are not there.
func (f *fake) many(dir string, most int) ([]string, error) {
	names, err := f.disk.many(dir, most)
	text, _ := f.disk.read("crowd")
	crowd, _ := strconv.Atoi(text)
	var out []string
	for i := range crowd {
		out = append(out, strconv.Itoa(100+i))
	}
	out = append(out, names...)
	return out[:min(len(out), most)], err
}

// gpuHost has two GPUs of NVIDIA on node 0 and 1, one of AMD on node 1, and an accelerator on node 0.
func gpuHost() *topology.Host {
	return &topology.Host{Devices: []topology.Device{
		{Name: "0000:13:00.0", Kind: topology.GPU, PCI: "0000:13:00.0", Node: 0, GPU: "gpu0", Model: "NVIDIA H100", Chars: "195:0"},
		{Name: "accel0", Kind: topology.Accel, PCI: "0000:14:00.0", Node: 0, GPU: "gpu1", Chars: "261:0"},
		{Name: "0000:83:00.0", Kind: topology.GPU, PCI: "0000:83:00.0", Node: 1, GPU: "gpu2", Model: "NVIDIA H100", Chars: "195:1"},
		{Name: "card1", Kind: topology.GPU, PCI: "0000:84:00.0", Node: 1, GPU: "gpu3", Chars: "226:128 226:1"},
		{Name: "card0", Kind: topology.GPU, PCI: "0000:85:00.0", Node: 1},
	}}
}

func TestGPUs(t *testing.T) {
	const fd = "proc/%d/fd/%d"
	open := func(into map[string]string, numbers map[string][2]string, pid, n int, name, number string) {
		into[fmt.Sprintf(fd, pid, n)] = "→" + name
		if number != "" {
			numbers[fmt.Sprintf(fd, pid, n)] = [2]string{"", number}
		}
	}
	for _, tt := range []struct {
		name string
		open func(add func(pid, fd int, name, number string), files map[string]string)
		want []string
	}{
		{"nothing", func(func(int, int, string, string), map[string]string) {}, nil},
		{"two workers, each with its own", func(add func(int, int, string, string), _ map[string]string) {
			add(10, 3, "/dev/nvidiactl", "195:255")
			add(10, 4, "/dev/nvidia0", "195:0")
			add(10, 5, "/dev/nvidia0", "195:0")
			add(11, 4, "/dev/nvidia1", "195:1")
		}, []string{
			"gpu gpu0 node 0: /dev/nvidia0 open in PID 10; 10×2",
			"gpu gpu2 node 1: /dev/nvidia1 open in PID 11; 11×1",
		}},
		{"a render node and an accelerator", func(add func(int, int, string, string), _ map[string]string) {
			add(10, 3, "/dev/dri/renderD128", "226:128")
			add(11, 3, "/dev/accel/accel0", "261:0")
		}, []string{
			"gpu gpu1 node 0: /dev/accel/accel0 open in PID 11; 11×1",
			"gpu gpu3 node 1: /dev/dri/renderD128 open in PID 10; 10×1",
		}},
		{"kfd and a screen alone", func(add func(int, int, string, string), _ map[string]string) {
			add(10, 3, "/dev/kfd", "235:0")
			add(10, 4, "/dev/dri/card0", "226:0")
			add(10, 5, "/dev/nvidia-uvm", "511:0")
		}, nil},
		{"a partition of a GPU", func(add func(int, int, string, string), _ map[string]string) {
			add(10, 3, "/dev/nvidia-caps/nvidia-cap12", "237:12")
			add(10, 4, "/dev/nvidia-caps/nvidia-cap1", "237:1") // to configure partitions
		}, []string{"gpu gpu2 node 1: /dev/nvidia-caps/nvidia-cap12 open in PID 10; 10×1"}},
		{"only names that look like one", func(add func(int, int, string, string), _ map[string]string) {
			add(10, 3, "/dev/nvidia0", "")            // a file of that name
			add(10, 4, "/dev/nvidia1", "1:3")         // another device of that name
			add(10, 5, "/home/dev/nvidia0", "195:0")  // not where devices are
			add(10, 6, "/dev/nvidia0 (deleted)", "0") // not a number
		}, nil},
		{"opened without permission", func(add func(int, int, string, string), files map[string]string) {
			add(10, 3, "/dev/nvidia0", "195:0")
			files["proc/10/fdinfo/3"] = "pos:\t0\nflags:\t012000000\nmnt_id:\t7"
			add(11, 3, "/dev/nvidia0", "195:0")
			files["proc/11/fdinfo/3"] = "pos:\t0\nflags:\t0100002\nmnt_id:\t7"
		}, []string{"gpu gpu0 node 0: /dev/nvidia0 open in PID 11; 11×1"}},
		{"a hostile name", func(add func(int, int, string, string), _ map[string]string) {
			add(10, 3, "/dev/nvidia\x1b[2J\n"+strings.Repeat("x", 90), "195:0")
		}, []string{"gpu gpu0 node 0: /dev/nvidia?[2J?" + strings.Repeat("x", 48) + "… open in PID 10; 10×1"}},
		{"behind ten thousand open files", func(add func(int, int, string, string), files map[string]string) {
			files["crowd"] = "10000"
			add(10, 99_999, "/dev/nvidia1", "195:1")
		}, []string{"gpu gpu2 node 1: /dev/nvidia1 open in PID 10; 10×1"}},
		{"six workers", func(add func(int, int, string, string), _ map[string]string) {
			for pid := 10; pid < 16; pid++ {
				add(pid, 3, "/dev/nvidia0", "195:0")
			}
		}, []string{"gpu gpu0 node 0: /dev/nvidia0 open in PID 10, 11, 12, 13 and 2 more; 10×1 11×1 12×1 13×1 14×1 15×1"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			files := map[string]string{
				"proc/self/ns/net": "→net:[1]",
				"proc/devices":     "Character devices:\n  1 mem\n195 nvidia\n237 nvidia-caps\n\nBlock devices:\n237 nvidia-caps",
				"proc/driver/nvidia-caps/mig-minors": "config 1\nmonitor 2\ngpu1/gi0/access 12\ngpu1/gi0/ci0/access 13\n" +
					"gpu9/gi0/access 14\ngpu1/gi1/access x",
			}
			numbers := map[string][2]string{}
			tt.open(func(pid, n int, name, number string) { open(files, numbers, pid, n, name, number) }, files)
			f := New("")
			f.files = &fake{disk: disk{tree(t, files)}, devices: numbers}
			links, _ := f.Links(t.Context(), gpuHost(), []workload.Observation{work("/train", 10, 11, 12, 13, 14, 15, 4000)})
			var got []string
			for _, l := range links["/train"] {
				if l.Kind != workload.ByGPU {
					continue
				}
				var holders []string
				for _, h := range l.Holders {
					holders = append(holders, fmt.Sprintf("%d×%d", h.PID, h.Files))
				}
				got = append(got, fmt.Sprintf("%s %s node %s: %s; %s", l.Kind, l.Device, l.Nodes, l.Evidence, strings.Join(holders, " ")))
			}
			if d := cmp.Diff(tt.want, got); d != "" {
				t.Errorf("(-want +got)\n%s", d)
			}
		})
	}
}

// A workload on a host without GPUs costs no reading of its files for them.
func TestNoGPUsCostNothing(t *testing.T) {
	files := map[string]string{"proc/self/ns/net": "→net:[1]"}
	for i := range 600 {
		files[fmt.Sprintf("proc/10/fd/%d", i)] = "→/dev/null"
	}
	root := tree(t, files)
	count := func(h *topology.Host) int {
		f := New("")
		x := &fake{disk: disk{root}}
		f.files = x
		f.Links(t.Context(), h, []workload.Observation{work("/w", 10)})
		return x.links
	}
	none, some := count(host()), count(gpuHost())
	if none >= 600 || some < none+600 {
		t.Errorf("%d links read without GPUs, %d with", none, some)
	}
}

// What is read of one workload is bounded, whatever it has open.
func TestOpenFilesAreBounded(t *testing.T) {
	f := New("")
	x := &crowded{}
	f.files = x
	f.Links(t.Context(), gpuHost(), []workload.Observation{work("/w", 1, 2, 3)})
	if x.asked > mostOpen+3*mostDescriptors+100 {
		t.Errorf("%d links read", x.asked)
	}
}

// Of a GPU that a workload has open thousands of times, the fdinfo of only some descriptors is read: the driver of a GPU
// goes through all buffers of a descriptor for its fdinfo. All of them count.
func TestInfosAreBounded(t *testing.T) {
	f := New("")
	x := &crowded{gpus: true}
	f.files = x
	links, _ := f.Links(t.Context(), gpuHost(), []workload.Observation{work("/w", 1, 2, 3)})
	if x.infos > mostInfos {
		t.Errorf("%d fdinfo read", x.infos)
	}
	all := 0
	for _, l := range links["/w"] {
		for _, h := range l.Holders {
			all += h.Files
		}
	}
	if all != mostOpen {
		t.Errorf("%d open files of GPUs, want %d", all, mostOpen)
	}
}

// crowded is a machine whose processes have a million files open.
type crowded struct {
	fake
	gpus  bool // they are GPUs
	asked int
	infos int // of descriptors, read
}

func (m *crowded) many(_ string, most int) ([]string, error) {
	out := make([]string, min(most, 1_000_000))
	for i := range out {
		out[i] = fmt.Sprint(i)
	}
	return out, nil
}

func (m *crowded) list(dir string) ([]string, error) { return m.many(dir, mostEntries) }

func (m *crowded) link(string) (string, error) {
	m.asked++
	if m.gpus {
		return "/dev/nvidia0", nil
	}
	return "/data", nil
}

func (m *crowded) char(name string) (string, error) {
	if m.gpus {
		return "195:0", nil
	}
	return m.fake.char(name)
}

func (m *crowded) read(name string) (string, error) {
	if strings.Contains(name, "/fdinfo/") {
		m.infos++
		return "pos:\t0\nflags:\t02\n", nil
	}
	return m.fake.read(name)
}

func FuzzMIGMinors(f *testing.F) {
	f.Add("gpu0/gi0/access 3\nconfig 1\n")
	f.Fuzz(func(t *testing.T, text string) {
		for capability, gpu := range maps.All(migMinors(text)) {
			if capability < 0 || gpu < 0 {
				t.Fatalf("%d %d", capability, gpu)
			}
		}
		if n := majorOf(text, "nvidia-caps"); n < -1 || n == 0 || n >= 1<<12 {
			t.Fatalf("major %d", n)
		}
	})
}

// The files of this machine: a device by its numbers, no file, and a descriptor that was opened
// without asking for permission.
func TestCharDevicesOfThisMachine(t *testing.T) {
	d := disk{"/"}
	if number, err := d.char("dev/null"); err != nil || number != "1:3" {
		t.Errorf("/dev/null is %q, %v", number, err)
	}
	if number, err := d.char("proc/self/status"); err != nil || number != "" {
		t.Errorf("a file is %q, %v", number, err)
	}
	if _, err := d.char("dev/there is none"); err == nil {
		t.Error("what is not there is a device")
	}
	r := &round{Finder: New("/")}
	for flags, want := range map[int]bool{unix.O_PATH: true, unix.O_RDONLY: false} {
		fd, err := unix.Open("/dev/null", flags|unix.O_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		if got := r.onlyPath(os.Getpid(), strconv.Itoa(fd)); got != want {
			t.Errorf("opened with %#x: only a path %v", flags, got)
		}
		unix.Close(fd)
	}
}
