package daemon

import (
	"fmt"
	"path"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// changedSets is the cgroups whose CPU set the journal has.
func changedSets(journal []plan.Entry) map[string]bool {
	out := map[string]bool{}
	for _, e := range journal {
		if e.Kind == plan.CgroupCPUs {
			out[e.Path] = true
		}
	}
	return out
}

// setByOthers says why a cgroup is left alone whose CPUs somebody else chose, by
// systemd's AllowedCPUs= or as the kubelet's static policy does it; "" when nobody did. A
// set that homenode changed, on the cgroup or above it, is not somebody else's.
func setByOthers(o *workload.Observation, h *topology.Host, sets map[string]bool) string {
	if o.Kind != workload.InCgroup || o.CPUs.Empty() || h.Allowed.SubsetOf(o.CPUs) {
		return ""
	}
	for at := path.Clean("/" + o.Cgroup); ; at = path.Dir(at) {
		if sets[at] {
			return ""
		}
		if at == "/" {
			return fmt.Sprintf("Its cgroup was given CPUs %v by somebody else (AllowedCPUs=, cpuset.cpus); homenode does not fight over them.", o.CPUs)
		}
	}
}
