package main

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	cdi "tags.cncf.io/container-device-interface/specs-go"

	"github.com/homenode/homenode/core/topology"
)

// cdiKind is vendor and class of the CDI devices: one for each request of a claim.
const cdiKind = driverName + "/claim"

// cdiFolder is where the runtime looks for CDI files.
type cdiFolder string

func (d cdiFolder) file(uid types.UID) string {
	return filepath.Join(string(d), driverName+"-claim-"+string(uid)+".json")
}

// cdiName is the CDI device of a request of a claim.
func cdiName(uid types.UID, request string) string { return string(uid) + "-" + request }

// variable is the environment variable by which the daemon's NRI plugin knows the bookings
// of a container.
func variable(uid types.UID, request string) string {
	return "HOMENODE_CLAIM_" + strings.NewReplacer("-", "_", ".", "_").Replace(string(uid)+"_"+request)
}

// cpuset is the variable in which a claim's container finds its CPUs, as "DRA_CPUSET_<claim UID>=0-2,14-15".
// dra-driver-cpu made the name, hyphens of the UID included, and KubeVirt's virt-launcher is to pin vCPUs by it
// (veps/sig-compute/152-cpu-dra/vep.md of kubevirt/enhancements, pull request 414; KubeVirt had no code for it at
// d923fdb, August 2026). KubeVirt's parser of CPU lists takes no spaces (pkg/util/hardware/hw_utils.go).
//
// It is "" for a claim of several requests: a container may have one of them, and a variable of the whole claim would
// name CPUs that are not its own. Without it virt-launcher uses the CPU set of its cgroup.
func (c *claim) cpuset() string {
	if len(c.requests()) != 1 {
		return ""
	}
	var cpus topology.CPUSet
	for i := range c.Bookings {
		cpus = cpus.Union(c.Bookings[i].Given)
	}
	if cpus.Empty() { // of memory alone
		return ""
	}
	return "DRA_CPUSET_" + string(c.UID) + "=" + cpus.String()
}

// write makes the file of a claim: each request is a device that puts the IDs of its
// bookings into the container's environment.
func (d cdiFolder) write(c *claim) error {
	// The oldest version whose devices may be named by a UID: 0.3.0 wants a letter first.
	spec := cdi.Spec{Version: "0.5.0", Kind: cdiKind}
	cpus := c.cpuset()
	for _, request := range c.requests() {
		var ids []string
		for i := range c.Bookings {
			if c.Bookings[i].Request == request {
				ids = append(ids, string(c.Bookings[i].ID))
			}
		}
		env := []string{variable(c.UID, request) + "=" + strings.Join(ids, " ")}
		if cpus != "" {
			env = append(env, cpus)
		}
		device := cdi.Device{Name: cdiName(c.UID, request)}
		device.ContainerEdits.Env = env
		spec.Devices = append(spec.Devices, device)
	}
	data, err := json.Marshal(spec)
	if err != nil {
		return err
	}
	return writeFile(d.file(c.UID), data, 0o600)
}

func (d cdiFolder) remove(uid types.UID) error {
	if err := os.Remove(d.file(uid)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// requests is the requests of a claim that have bookings, in their order.
func (c *claim) requests() []string {
	var out []string
	seen := map[string]bool{}
	for i := range c.Bookings {
		if r := c.Bookings[i].Request; !seen[r] {
			seen[r] = true
			out = append(out, r)
		}
	}
	return out
}
