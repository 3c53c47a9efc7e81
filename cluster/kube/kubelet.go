package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Managers of the kubelet that pin containers by themselves, and the files that say so.
// (pkg/kubelet/cm/cpumanager/state and memorymanager/state of Kubernetes)
var kubeletManagers = []struct{ file, name, pins string }{
	{"cpu_manager_state", "CPU manager", "static"},
	{"memory_manager_state", "memory manager", "Static"},
}

// staticManagers says which managers of the kubelet pin containers without asking this
// driver, as a clause; "" when none does. The kubelet takes no hints from claims: it may put a
// container on another NUMA node than the scheduler has chosen.
func staticManagers(kubelet string) string {
	var found []string
	for _, m := range kubeletManagers {
		data, err := os.ReadFile(filepath.Join(kubelet, m.file))
		var state struct {
			Policy string `json:"policyName"`
		}
		if err == nil && json.Unmarshal(data, &state) == nil && state.Policy == m.pins {
			found = append(found, fmt.Sprintf("%s (%s)", m.name, m.pins))
		}
	}
	if found == nil {
		return ""
	}
	return "the kubelet pins containers itself: " + strings.Join(found, " and ")
}
