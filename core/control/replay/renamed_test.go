package replay

import (
	"reflect"
	"testing"

	"github.com/homenode/homenode/core/control/journal"
	"github.com/homenode/homenode/core/control/work"
	"github.com/homenode/homenode/core/plan"
)

// groupNow is the name of the group of resctrl since version 0.2.
const groupNow = "homenode-batch"

// TestRename: every setting of a result has its name of now, and the values of other kinds stay.
func TestRename(t *testing.T) {
	group := plan.Setting{Kind: plan.CacheGroup, Path: journal.GroupBefore, Value: journal.GroupBefore}
	policy := plan.Setting{Kind: plan.TaskPolicy, Path: "/a", Value: journal.PolicyBefore}
	r := &work.Result{
		Changes:  []plan.Change{{Setting: policy, Will: journal.PolicyBefore}, {Setting: group, Will: journal.GroupBefore}, {Will: journal.PolicyBefore}},
		Settings: []plan.Setting{policy, group},
		Standing: []plan.Setting{group, policy},
	}
	Rename(r)
	group.Path, group.Value, policy.Value = groupNow, groupNow, plan.PolicyExt
	want := &work.Result{
		Changes:  []plan.Change{{Setting: policy, Will: plan.PolicyExt}, {Setting: group, Will: groupNow}, {Will: journal.PolicyBefore}},
		Settings: []plan.Setting{policy, group},
		Standing: []plan.Setting{group, policy},
	}
	if !reflect.DeepEqual(r, want) {
		t.Errorf("%+v, want %+v", r, want)
	}
}

// TestSameNow: each key has its own names of before, and no other key has them.
func TestSameNow(t *testing.T) {
	output := func(key, value string) string {
		return `{"save":{},"x":[{"` + key + `":"` + value + `","n":12345678901234567891}]}`
	}
	for _, c := range []struct {
		key, was, now string
		same          bool
	}{
		{"class", "offline", "batch", true},
		{"Class", "offline", "batch", true},
		{"class", "offline", "shared", false},
		{"class", "offline-x", "batch", false},
		{"class", "offline-x", "offline-x", true},
		{"tier", "offline-idle", "batch-idle", false},
		{"tier", "offline", "batch", true},
		{"Tier", "offline", "batch", true},
		{"tier", "offline", "idle", false},
		{"code", "offline-freeze", "offline-freeze", true},
		{"to", "homenode-offline", "homenode-batch", true},
		{"new", "homenode-offline", "homenode-batch", true},
		{"old", "offline", "ext", true},
		{"value", "offline", "ext", true},
		{"host", "homenode-offline", "homenode-batch", true},
		{"path", "homenode-offline", "homenode-batch", true},
		{"path", "offline", "ext", false},
		{"name", "offline", "batch", false},
		{"name", "offline", "ext", false},
		{"name", "homenode-offline", "homenode-batch", false},
		{"name", "offline", "offline", true},
	} {
		was := output(c.key, c.was) // the other keys in another order
		now := `{"x": [{"n":12345678901234567891,"` + c.key + `":"` + c.now + `"}],"save":{}}`
		if got := sameNow([]byte(was), []byte(now)); got != c.same {
			t.Errorf("%s: %s and %s: the same: %v", c.key, c.was, c.now, got)
		}
	}
	if sameNow([]byte(`{"x":"offline","n":12345678901234567891}`), []byte(`{"x":"offline","n":12345678901234567892}`)) {
		t.Error("two numbers are taken for one")
	}
	if sameNow([]byte(`{"x":"batch"}`), []byte(`{ "x":"batch"}`)) {
		t.Error("an output of this version is compared as one of before")
	}
	if sameNow([]byte(`{"x":"offline"`), []byte(`{"x":"offline"`)) || Same([]byte(`{"save":1}`), []byte(`{"save":2}`)) {
		t.Error("what is no output is the same as something")
	}
	if got := Difference([]byte("b"), []byte("ab")); got != "recorded …b…, now …ab…" {
		t.Error(got)
	}
	if got := Difference([]byte("bxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"), []byte("axxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx")); got != "recorded …bxxxxxxxxxxxxxxxxxxxxxxxxxxxxx…, now …axxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx…" {
		t.Error(got)
	}
}
