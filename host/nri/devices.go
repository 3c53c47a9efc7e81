package nri

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/containerd/nri/pkg/api"

	"github.com/homenode/homenode/core/place/nearness"
	"github.com/homenode/homenode/core/workload"
)

const (
	// mostDevices bounds the GPUs of a container, and the devices that are looked at: one with
	// privileges has all of the host.
	mostDevices = 16
	mostListed  = 4096
	// mostDeviceName is the length of a name that is looked up, in bytes.
	mostDeviceName = 128

	visible = "NVIDIA_VISIBLE_DEVICES="
)

// gpuPaths are the device files of GPUs and accelerators, each before its number. A runtime gives others with them,
// which are no GPUs: /dev/nvidiactl, /dev/nvidia-uvm.
var gpuPaths = []string{"/dev/nvidia", "/dev/dri/renderD", "/dev/accel", "/dev/accel/accel", "/dev/hl"}

// isGPU reports whether a device file is a GPU's.
func isGPU(file string) bool {
	return slices.ContainsFunc(gpuPaths, func(before string) bool {
		number, ok := strings.CutPrefix(file, before)
		return ok && number != "" && strings.Trim(number, "0123456789") == ""
	})
}

// gpusOf returns the GPUs that a container is given, by names that the host's devices have: numbers
// of character devices of its spec, or else names of the Container Device Interface
// (nvidia.com/gpu=0), or what NVIDIA's runtime gives it by an environment variable.
// Images set the variable, too, to "all": that value is no evidence.
func gpusOf(c *api.Container) []string {
	var out []string
	add := func(name string) {
		named := name != "" && len(name) <= mostDeviceName && workload.OneLine(name)
		if named && len(out) < mostDevices && !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	listed := c.GetLinux().GetDevices()
	for _, d := range listed[:min(len(listed), mostListed)] {
		if isGPU(d.GetPath()) && d.GetType() == "c" && d.GetMajor() > 0 {
			add(fmt.Sprintf("%d:%d", d.GetMajor(), d.GetMinor()))
		}
	}
	if len(out) > 0 {
		return out
	}
	named := c.GetCDIDevices()
	for _, d := range named[:min(len(named), mostListed)] {
		kind, name, _ := strings.Cut(d.GetName(), "=")
		if strings.Contains(kind, "gpu") {
			add(gpuName(name))
		}
	}
	if len(out) > 0 {
		return out
	}
	for _, e := range c.GetEnv() {
		if value, ok := strings.CutPrefix(e, visible); ok && len(value) < mostListed {
			for name := range strings.SplitSeq(value, ",") {
				add(gpuName(strings.TrimSpace(name)))
			}
		}
	}
	return out
}

// gpuName returns the name that the host has for a GPU: of an index gpuN, of a partition (0:1) that of
// its GPU; a UUID is one. all, none and void name no GPU.
func gpuName(name string) string {
	if strings.HasPrefix(name, "GPU-") {
		return strings.Clone(name)
	}
	index, _, _ := strings.Cut(name, ":")
	if at := strings.LastIndex(index, "gpu-"); at >= 0 { // of a resource claim: UID-gpu-0
		index = index[at+len("gpu-"):]
	}
	n, err := strconv.Atoi(index)
	if err != nil || n < 0 || n > 1<<12 {
		return ""
	}
	return "gpu" + strconv.Itoa(n)
}

// nearGPUs adds the GPUs that the containers of a workload are given to what it is near to. A person's
// wish for the GPUs that it uses, whichever these are, is for these; a person's wish for anything
// else stands alone.
func nearGPUs(near []workload.Near, containers []*container) []workload.Near {
	var given []string
	for _, c := range containers {
		for _, name := range c.gpus {
			if !slices.Contains(given, name) && len(given) < mostDevices {
				given = append(given, name)
			}
		}
	}
	if len(given) == 0 {
		return near
	}
	auto := slices.IndexFunc(near, func(n workload.Near) bool { return n.Device == workload.AnyGPU })
	if auto < 0 {
		if len(near) > 0 {
			return near
		}
		for _, name := range given {
			near = append(near, nearness.Given(name, len(given)))
		}
		return near
	}
	out := slices.Delete(slices.Clone(near), auto, auto+1)
	for _, name := range given {
		n := near[auto]
		n.Device = name
		n.Weight = cmp.Or(n.Weight, max(1, nearness.Given(name, len(given)).Weight))
		n.Required = n.Required && len(given) == 1
		out = append(out, n)
	}
	return out
}
