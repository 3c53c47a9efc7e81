package scene

import (
	"strings"
	"testing"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// TestFind: a name means one workload, or the reason says why it does not.
func TestFind(t *testing.T) {
	s := seen(service("db"), service("web"), process(7, 1000, 1), process(8, 1000, 1))
	s.Claims = map[workload.ID]*workload.Claim{"/system.slice/web.service": {Also: []string{"uuid"}}, "vm:off": {Name: "off"}}
	all := Known(s.Snapshot.Observations, Remembered{
		Claims:  s.Claims,
		Journal: []plan.Entry{{Workload: "/gone"}, {Workload: "/gone"}, {Workload: ""}},
		Held:    map[workload.ID]bool{"/held": true},
		Others:  []workload.ID{"pid:99", "/held"},
	})
	if len(all) != 8 {
		t.Errorf("%d are known: %+v", len(all), all)
	}
	for _, tt := range []struct {
		name workload.ID
		of   workload.Lineage
		want workload.ID
		none bool
		why  words.Code
	}{
		{name: "db", want: "/system.slice/db.service"},
		{name: "uuid", want: "/system.slice/web.service"},
		{name: "off", want: "vm:off"},
		{name: "/gone", want: "/gone"},
		{name: "/held", want: "/held"},
		{name: "pid:99", want: "pid:99"},
		{name: "", why: words.NameWorkload},
		{name: "device:eth9", none: true, why: words.NoSuchDevice},
		{name: "4711", none: true, why: words.NoSuchProcess},
		{name: "4711", of: workload.Lineage{PIDs: []int{4711}}, none: true, why: words.ProcessOfNone},
		{name: "nonsense", none: true, why: words.UnknownWorkload},
	} {
		id, f := Find(all, tt.name, tt.of)
		switch {
		case f == nil:
			if id != tt.want || tt.why != "" {
				t.Errorf("%q: %s", tt.name, id)
			}
		case id != "" || f.None != tt.none || f.Why.Code != tt.why:
			t.Errorf("%q: %q, %+v", tt.name, id, f)
		}
	}
	long := workload.ID(strings.Repeat("ö", 100))
	_, f := Find(all, long, workload.Lineage{})
	if text := f.Why.String(); strings.Contains(text, strings.Repeat("ö", 41)) || !strings.Contains(text, strings.Repeat("ö", 40)+"…") {
		t.Errorf("%s", text)
	}
}

// TestSeveralAreListed: of many workloads of one name eight are listed.
func TestSeveralAreListed(t *testing.T) {
	var all []workload.Named
	for pid := range 10 {
		n := workload.NamedByID(ProcessID(pid + 1))
		n.Name = "db"
		all = append(all, n)
	}
	_, f := Find(all, "db", workload.Lineage{})
	if f == nil || f.None || f.Why.Code != words.SeveralNamed {
		t.Fatalf("%+v", f)
	}
	text := f.Why.String()
	if !strings.Contains(text, "pid:7 (db) and 2 more") || strings.Contains(text, "pid:8") {
		t.Errorf("%s", text)
	}
	if _, f = Find(all[:8], "db", workload.Lineage{}); strings.Contains(f.Why.String(), "more") {
		t.Errorf("%s", f.Why)
	}
}

// TestPartsHaveNoProcess: the process of a part names the whole.
func TestPartsHaveNoProcess(t *testing.T) {
	o := process(7, 0, 1)
	all := Running([]workload.Observation{o}, map[workload.ID]*workload.Claim{o.ID: {Part: &workload.Part{}}})
	if len(all[0].Processes) != 0 {
		t.Errorf("%+v", all[0])
	}
	if all = Running([]workload.Observation{o}, nil); len(all[0].Processes) != 1 {
		t.Errorf("%+v", all[0])
	}
}

// TestSmaller: a name that means no workload may mean work that is too small to be one.
func TestSmaller(t *testing.T) {
	snap := &workload.Snapshot{Smaller: []workload.Smaller{
		{ID: "/system.slice/cron.service", Name: "cron", Cgroup: "/system.slice/cron.service", Memory: 5, CPUUse: 0.5},
		{ID: "pid:9", Name: "sh"},
	}}
	journal := []plan.Entry{{Workload: "pid:7"}}
	inCron := workload.Lineage{PIDs: []int{77}, Cgroup: "/system.slice/cron.service"}
	for _, tt := range []struct {
		name workload.ID
		of   workload.Lineage
		want words.Code
	}{
		{"cron", workload.Lineage{}, words.SmallerNamed},
		{"pid:7", workload.Lineage{}, words.ProcessMoved},
		{"9", workload.Lineage{PIDs: []int{9}}, words.SmallerNamed},
		{"77", inCron, words.SmallerHolds},
		{"x", workload.Lineage{}, ""},
	} {
		if got := Smaller(snap, journal, tt.name, tt.of).Code; got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}
