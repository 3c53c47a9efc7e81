package control

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"os"
	"testing"

	"github.com/homenode/homenode/core/control/journal"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/share"
	"github.com/homenode/homenode/core/workload"
)

// logOf01 is a flight log that version 0.1 wrote: batch work, which it calls offline, beside a
// service, with the scheduler and the group of resctrl.
func logOf01(t *testing.T) (log []Logged) {
	t.Helper()
	f, err := os.Open("testdata/flight-0.1.jsonl.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	for lines := json.NewDecoder(z); ; {
		var l Logged
		if err := lines.Decode(&l); errors.Is(err, io.EOF) {
			return log
		} else if err != nil {
			t.Fatal(err)
		}
		log = append(log, l)
	}
}

// TestReplayOfBefore: what version 0.1 decided of offline work is decided again of batch work.
func TestReplayOfBefore(t *testing.T) {
	log := logOf01(t)
	out, err := Replay(reader(log), nil)
	if err != nil || out.Differ != 0 || out.Inputs < 100 || out.Scans != 30 {
		t.Errorf("%d of %d inputs differ: %s, %v", out.Differ, out.Inputs, out.First, err)
	}
	for k := range log {
		if now := bytes.Replace(log[k].Output, []byte(`"to":"offline"`), []byte(`"to":"idle"`), 1); !bytes.Equal(now, log[k].Output) {
			log[k].Output = now
			break
		}
	}
	if out, err := Replay(reader(log), nil); err != nil || out.Differ != 1 {
		t.Errorf("another decision: %d differ, %v", out.Differ, err)
	}
}

// TestJournalOfBefore: what version 0.1 has set is known under the names of now, and undone.
func TestJournalOfBefore(t *testing.T) {
	entries := []plan.Entry{
		{Seq: 1, Workload: share.CacheID, Kind: plan.CacheGroup, Path: "homenode-offline", New: "L3:0=f", State: plan.Applied},
		{Seq: 2, Workload: "/a", Kind: plan.CacheTasks, Path: "/a", New: "homenode-offline", State: plan.Applied},
		{Seq: 3, Workload: "/a", Kind: plan.TaskPolicy, Path: "/a", Old: "other", New: "offline", State: plan.Applied},
		{Seq: 4, Workload: "/offline", Kind: plan.CgroupCPUs, Path: "/offline", Old: "0-3", New: "0-1", State: plan.Applied},
	}
	s := New(Settings{}, Saved{Journal: entries, Theirs: []journal.Theirs{{Workload: share.CacheID, Kind: plan.CacheGroup, Path: "homenode-offline"}}})
	if _, known := s.Theirs[string(plan.CacheGroup)+" "+share.CacheGroup]; !known {
		t.Errorf("what another program took over is %+v", s.Theirs)
	}
	if e := s.Journal.Of(plan.CacheGroup, share.CacheGroup); e == nil || e.Seq != 1 {
		t.Errorf("the group is %+v", e)
	}
	if e := s.Journal.Of(plan.CacheTasks, "/a"); e == nil || e.New != share.CacheGroup {
		t.Errorf("its threads are in %+v", e)
	}
	if e := s.Journal.Of(plan.TaskPolicy, "/a"); e == nil || e.New != plan.PolicyExt || e.Old != "other" {
		t.Errorf("its policy is %+v", e)
	}
	if e := s.Journal.Of(plan.CgroupCPUs, "/offline"); e == nil || e.Workload != "/offline" || e.New != "0-1" {
		t.Errorf("a cgroup of that name: %+v", e)
	}
}

// TestRunOfBefore: a command that version 0.1 started is batch work where that put it.
func TestRunOfBefore(t *testing.T) {
	f := batch(t, turnedOn)
	id := f.add("homenode-offline/7", 2, 1<<20, 1)
	f.batch(id)
	f.scans(4)
	if f.get(plan.CgroupIdle, string(id)) != "1" || f.placement(id).Class != workload.Batch {
		t.Errorf("cpu.idle %s, %+v", f.get(plan.CgroupIdle, string(id)), f.placement(id))
	}
}
