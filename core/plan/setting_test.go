package plan

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// A value stays known for as long as it may stand: what was applied last, what was tried
// since, and where children inherit the last few. Nothing else is kept (R7).
func TestRenew(t *testing.T) {
	tests := []struct {
		name   string
		kind   SettingKind
		state  EntryState // before each value
		values []string
		past   []string
	}{
		{"one value", CgroupCPUs, Applied, []string{"1"}, nil},
		{"each applied", CgroupCPUs, Applied, []string{"1", "2", "3"}, []string{"2"}},
		{"none known to be applied", CgroupCPUs, Intended, []string{"1", "2", "3"}, []string{"1", "2"}},
		{"the same again", CgroupCPUs, Applied, []string{"1", "2", "2"}, nil},
		{"the same tried again", CgroupCPUs, Intended, []string{"1", "2", "2"}, []string{"1"}},
		{"there and back", CgroupCPUs, Intended, []string{"1", "2", "1"}, []string{"2"}},
		{"affinity", Affinity, Applied, []string{"1", "2", "3"}, []string{"1", "2"}},
		{"affinity there and back", Affinity, Applied, []string{"1", "2", "1", "3"}, []string{"2", "1"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e := Entry{Kind: tt.kind, Old: "0"}
			for _, v := range tt.values {
				e.State = tt.state
				e.Renew("w", v)
			}
			if !slices.Equal(e.Past, tt.past) || e.New != tt.values[len(tt.values)-1] || e.State != Intended || e.Workload != "w" {
				t.Errorf("%+v, want past %q", e, tt.past)
			}
			for _, v := range append(tt.past, e.New, "0") {
				if !e.Ours(Setting{Value: v}) {
					t.Errorf("%q is not ours", v)
				}
			}
		})
	}
	for _, kind := range []SettingKind{CgroupCPUs, Affinity} {
		e := Entry{Kind: kind}
		for i := range 4000 {
			e.Renew("w", fmt.Sprint(i)) // as by a change that fails each time
		}
		if len(e.Past) != maxPast || e.Past[maxPast-1] != "3998" {
			t.Errorf("%s: %q", kind, e.Past)
		}
	}
}

func TestOurs(t *testing.T) {
	e := Entry{Kind: CgroupCPUs, Path: "/a", Old: "0-7", New: "2-3", Past: []string{"4-5"}, Object: "7"}
	for value, want := range map[string]bool{"0-7": true, "2-3": true, "4-5": true, "0": false, "": false} {
		if got := e.Ours(Setting{Value: value, Object: "7"}); got != want {
			t.Errorf("%q: %v", value, got)
		}
	}
	if e.Ours(Setting{Value: "2-3", Object: "8"}) {
		t.Error("the setting of a cgroup that was made anew is ours")
	}
	old := e
	old.Object = ""
	if !old.Ours(Setting{Value: "2-3", Object: "8"}) {
		t.Error("an entry of before, which knows no inode, is not ours")
	}
}

// What somebody has set by chance to what homenode wants is homenode's like any other
// value: when it reads otherwise later, somebody else has set it.
func TestEntryOfWhatIsSoAlready(t *testing.T) {
	e := Entry{Kind: IRQAffinity, Old: "6"}
	e.Renew("device:eth0", "6")
	if e.IsMadeAnew() || e.Ours(Setting{Value: "0-15"}) || !e.Ours(Setting{Value: "6"}) {
		t.Errorf("%+v", e)
	}
	e.Renew("device:eth0", "4")
	if anew := e.MadeAnew(); !anew.IsMadeAnew() || e.IsMadeAnew() || anew.Old != "6" {
		t.Errorf("%+v of %+v", anew, e)
	}
}

// TestLeft: what will not move is not waited for.
func TestLeft(t *testing.T) {
	for _, x := range []struct {
		m     Move
		left  time.Duration
		known bool
	}{
		{Move{Planned: 100, Moved: 25, Seconds: 2}, 6 * time.Second, true},
		{Move{Planned: 100, Moved: 25, Refused: 50, Seconds: 2}, 2 * time.Second, true},
		{Move{Planned: 100, Seconds: 2}, 0, false},
		{Move{Planned: 100, Moved: 25}, 0, false},
		{Move{Planned: 100, Moved: 100, Seconds: 2}, 0, false},
	} {
		if left, known := x.m.Left(); left != x.left || known != x.known {
			t.Errorf("%+v: %v %v, want %v %v", x.m, left, known, x.left, x.known)
		}
	}
}

// TestCgroupFilesNeedAKernel: of each file of a cgroup it is known what a kernel without it lacks, and of no other.
func TestCgroupFilesNeedAKernel(t *testing.T) {
	for kind := range CgroupFiles {
		if CgroupFileNeeds[kind] == "" {
			t.Errorf("%s needs no kernel", kind)
		}
	}
	if len(CgroupFileNeeds) != len(CgroupFiles) {
		t.Errorf("%d files of a cgroup, %d with a kernel", len(CgroupFiles), len(CgroupFileNeeds))
	}
}
