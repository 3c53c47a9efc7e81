package control

import (
	"testing"

	"github.com/homenode/homenode/core/share"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// TestSharingOfProcessesSaysWhatLacks: where no workload has a cgroup, as with cgroup v1, status says what
// sharing cannot set.
func TestSharingOfProcessesSaysWhatLacks(t *testing.T) {
	f := batch(t, turnedOn)
	f.scans(2)
	if code := f.s.Shared.Lacks.Code; code != "" {
		t.Errorf("with cgroups: %s", code)
	}
	g := newFake(t, 2, 8, func(s *Settings) { s.Share = share.DefaultSettings() }, ruled(workload.Rule{Match: "encode", Class: workload.Batch}), turnedOn)
	g.addProcess(501, "encode", 2, 1<<20, 1)
	g.addProcess(502, "web", 2, 1<<20, 0)
	g.scans(2)
	if code := g.s.Shared.Lacks.Code; code != words.ShareProcesses {
		t.Errorf("without cgroups: %q", code)
	}
}
