package nri

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/containerd/nri/pkg/api"

	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

func TestGPUsOf(t *testing.T) {
	device := func(path, kind string, major, minor int64) *api.LinuxDevice {
		return &api.LinuxDevice{Path: path, Type: kind, Major: major, Minor: minor}
	}
	for _, tt := range []struct {
		name string
		c    *api.Container
		want []string
	}{
		{"nothing", &api.Container{}, nil},
		{"device files", &api.Container{Linux: &api.LinuxContainer{Devices: []*api.LinuxDevice{
			device("/dev/null", "c", 1, 3), device("/dev/nvidiactl", "c", 195, 255), device("/dev/nvidia2", "c", 195, 2),
			device("/dev/nvidia2", "c", 195, 2), device("/dev/dri/renderD129", "c", 226, 129), device("/dev/kfd", "c", 235, 0),
			device("/dev/accel/accel0", "b", 261, 0), device("/dev/nvidia7", "c", -1, 7),
			device("/dev/accel/accel3", "c", 261, 3), device("/dev/accel/accel_controlD3", "c", 261, 67),
			device("/dev/nvidia-uvm", "c", 510, 0), device("/dev/nvidia-caps/nvidia-cap12", "c", 237, 12),
		}}, Env: []string{"NVIDIA_VISIBLE_DEVICES=0"}}, []string{"195:2", "226:129", "261:3"}},
		{"files beside those of GPUs alone", &api.Container{Linux: &api.LinuxContainer{Devices: []*api.LinuxDevice{
			device("/dev/nvidiactl", "c", 195, 255), device("/dev/nvidia-modeset", "c", 195, 254),
		}}, Env: []string{"NVIDIA_VISIBLE_DEVICES=0"}}, []string{"gpu0"}},
		{"names of the Container Device Interface", &api.Container{CDIDevices: []*api.CDIDevice{
			{Name: "nvidia.com/gpu=1"}, {Name: "nvidia.com/gpu=2:0"}, {Name: "nvidia.com/gpu=GPU-0a1b"}, {Name: "nvidia.com/gpu=all"},
			{Name: "k8s.gpu.nvidia.com/claim=8a5c-gpu-3"}, {Name: "vendor.com/nic=4"}, {Name: ""},
		}}, []string{"gpu1", "gpu2", "GPU-0a1b", "gpu3"}},
		{"the variable of NVIDIA's runtime", &api.Container{Env: []string{"PATH=/bin", "NVIDIA_VISIBLE_DEVICES=GPU-0a1b, 3,void"}}, []string{"GPU-0a1b", "gpu3"}},
		{"the variable of an image", &api.Container{Env: []string{"NVIDIA_VISIBLE_DEVICES=all"}}, nil},
		{"hostile", &api.Container{Env: []string{"NVIDIA_VISIBLE_DEVICES=GPU-" + strings.Repeat("x", 500) + ",-1,99999999999999999999,9:9:9,\x1b[2J,GPU-\x1b[2J\nok"}}, []string{"gpu9"}},
		{"too many", &api.Container{Env: []string{"NVIDIA_VISIBLE_DEVICES=" + strings.Repeat("1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,", 9)}},
			[]string{"gpu1", "gpu2", "gpu3", "gpu4", "gpu5", "gpu6", "gpu7", "gpu8", "gpu9", "gpu10", "gpu11", "gpu12", "gpu13", "gpu14", "gpu15", "gpu16"}},
	} {
		if got := gpusOf(tt.c); !slices.Equal(got, tt.want) {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

// GPUs that a container is given pull like GPUs that it uses; a wish for any GPU is for these, and other wishes stand
// alone.
func TestNearGPUs(t *testing.T) {
	given := []*container{{gpus: []string{"195:0", "195:1"}}, {gpus: []string{"195:0"}}}
	one := given[1:]
	for _, tt := range []struct {
		name  string
		near  string
		given []*container
		want  string
	}{
		{"none", "", nil, ""},
		{"given", "", given, "195:0 (learned) 195:1 (learned)"},
		{"another wish", "eth0", given, "eth0"},
		{"any", "eth0 gpu=auto", given, "eth0 195:0 195:1"},
		{"any, required", "gpu=auto,policy=required", one, "195:0,policy=required"},
		{"any of several, required", "gpu=auto,policy=required", given, "195:0 195:1"},
		{"any, and none given", "gpu=auto", nil, "gpu=auto"},
	} {
		var near []workload.Near
		if tt.near != "" {
			var err error
			near, err = workload.ParseNear(tt.near)
			if err != nil {
				t.Fatal(err)
			}
		}
		var got []string
		for _, n := range nearGPUs(near, tt.given) {
			text := strings.TrimPrefix(n.String(), "device=")
			if n.Learned {
				text += " (learned)"
			}
			got = append(got, text)
		}
		if text := strings.Join(got, " "); text != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, text, tt.want)
		}
	}
}

// A container that is given a GPU begins on the CPUs of that GPU's node, so that its first page is
// there: by the device files of its spec, by the variable of NVIDIA's runtime, and by its annotation.
func TestGPUsBeforeTheFirstPage(t *testing.T) {
	h := twoNodes(t)
	for i := range 4 {
		h.Devices = append(h.Devices, topology.Device{
			Name: fmt.Sprintf("card%d", i), Kind: topology.GPU, PCI: fmt.Sprintf("0000:%02x:00.0", 0x10+i), Node: topology.NodeID(i / 2),
			GPU: fmt.Sprintf("gpu%d", i), UUID: fmt.Sprintf("GPU-%d", i), Chars: fmt.Sprintf("195:%d", i),
		})
	}
	for gpu := range 4 {
		beside := []*api.LinuxDevice{
			{Path: "/dev/nvidiactl", Type: "c", Major: 195, Minor: 255},
			{Path: "/dev/nvidia-uvm", Type: "c", Major: 510},
		}
		given := []*api.LinuxDevice{{Path: fmt.Sprintf("/dev/nvidia%d", gpu), Type: "c", Major: 195, Minor: int64(gpu)}}
		for _, tt := range []struct {
			name        string
			annotations map[string]string
			devices     []*api.LinuxDevice
			env         []string
		}{
			{"device files", nil, given, nil},
			{"device files, with those beside them", nil, append(given, beside...), nil},
			{"variable", nil, nil, []string{fmt.Sprintf("NVIDIA_VISIBLE_DEVICES=GPU-%d", gpu)}},
			{"any GPU by annotation", map[string]string{"homenode.io/near": "gpu=auto"}, given, nil},
			{"a GPU by annotation", map[string]string{"homenode.io/near": fmt.Sprintf("gpu%d", gpu)}, nil, nil},
		} {
			n := newNode(t, h, "/nowhere")
			n.scan()
			p := n.podIn("ns", tt.annotations)
			c := &api.Container{Id: "c", PodSandboxId: p.Id, Name: "a", CreatedAt: 1, Env: tt.env, Linux: &api.LinuxContainer{
				CgroupsPath: "/k8s.io/c", Devices: tt.devices,
				Resources: &api.LinuxResources{Cpu: &api.LinuxCPU{Shares: api.UInt64(4096)}, Memory: &api.LinuxMemory{Limit: api.Int64(1 << 30)}},
			}}
			a, _, err := n.p.CreateContainer(t.Context(), p, c)
			if err != nil {
				t.Fatal(err)
			}
			want := h.Nodes[gpu/2].CPUs.String()
			if got := a.GetLinux().GetResources().GetCpu().GetCpus(); got != want {
				t.Errorf("gpu%d by %s: begins on CPUs %q, want %s", gpu, tt.name, got, want)
			}
		}
	}
}

// A pod with several GPUs says so: its processes may open another one each.
func TestSeveralGPUs(t *testing.T) {
	for gpus := range 3 {
		n := newNode(t, twoNodes(t), "/nowhere")
		n.scan()
		p := n.addPod(nil)
		c := &api.Container{Id: "c", PodSandboxId: p.Id, Name: "a", CreatedAt: 1, Linux: &api.LinuxContainer{
			CgroupsPath: "/k8s.io/c", Resources: &api.LinuxResources{Cpu: &api.LinuxCPU{}, Memory: &api.LinuxMemory{}},
		}}
		for i := range gpus {
			c.Linux.Devices = append(c.Linux.Devices,
				&api.LinuxDevice{Path: fmt.Sprintf("/dev/nvidia%d", i), Type: "c", Major: 195, Minor: int64(i)})
		}
		n.startContainer(p, c)
		n.scan()
		i := slices.IndexFunc(n.claims(), func(c workload.Claim) bool { return c.ID != "" })
		if i < 0 || n.claims()[i].Caps.GPUs != (gpus > 1) {
			t.Errorf("%d GPUs: %+v", gpus, n.claims())
		}
	}
}
