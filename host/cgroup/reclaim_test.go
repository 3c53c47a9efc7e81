package cgroup

import (
	"errors"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/workload"
)

func reclaimStep(cgroup string, bytes int64) plan.Step {
	return plan.Step{
		Kind: plan.ReclaimMemory, Workload: "job", To: strconv.FormatInt(bytes, 10),
		Target: plan.Target{Kind: workload.InCgroup, Cgroup: cgroup},
	}
}

// TestReclaim: memory is reclaimed in small parts, until the kernel finds no more. It is an error when the kernel finds
// none, or has no such file, and nothing is journalled.
func TestReclaim(t *testing.T) {
	for _, c := range []struct {
		name   string
		finds  int // parts
		lacks  bool
		bytes  int64
		writes []string
		fails  string
	}{
		{"all", 9, false, 9 << 20, []string{"4194304", "4194304", "1048576"}, ""},
		{"a part", 1, false, 9 << 20, []string{"4194304", "4194304"}, ""},
		{"none", 0, false, 9 << 20, []string{"4194304"}, "finds nothing"},
		{"an old kernel", 9, true, 1 << 20, []string{"1048576"}, "Linux 5.19"},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := slice(t)
			m.write("/", subtreeControl, "+memory")
			m.write("/a", subtreeControl, "+memory")
			if !c.lacks {
				m.put("/a/b", reclaimFile, "")
			}
			var writes []string
			m.fault = func(_ int, what string) error {
				text, is := strings.CutPrefix(what, "write /a/b "+reclaimFile+" ")
				if !is {
					return nil
				}
				writes = append(writes, text)
				if len(writes) > c.finds {
					return unix.EAGAIN
				}
				return nil
			}
			d, s := m.driver(), reclaimStep("/a/b", c.bytes)
			changes, err := d.Changes(ctx, s)
			if err != nil || len(changes) > 0 {
				t.Fatalf("%v, %v", changes, err)
			}
			err = d.Apply(ctx, s, nil)
			failed := err != nil && strings.Contains(err.Error(), c.fails)
			if failed != (c.fails != "") || (err != nil && c.fails == "") || !slices.Equal(writes, c.writes) {
				t.Errorf("%v; wrote %v, want %v", err, writes, c.writes)
			}
		})
	}
}

// TestReclaimOfNothing: the root, no cgroup, and what is no number of bytes are refused.
func TestReclaimOfNothing(t *testing.T) {
	m := slice(t)
	m.write("/", subtreeControl, "+memory")
	d := m.driver()
	zero, text, process := reclaimStep("/a", 0), reclaimStep("/a", 1), reclaimStep("/a", 1)
	text.To, process.Target.Kind = "1M swappiness=200", workload.InProcess
	for _, s := range []plan.Step{reclaimStep("/", 1<<20), zero, text, process, reclaimStep("/a/../b", 1)} {
		if _, err := d.Changes(ctx, s); err == nil {
			t.Errorf("%+v is accepted", s.Target)
		}
		if err := d.Apply(ctx, s, nil); err == nil {
			t.Errorf("%+v is carried out", s.Target)
		}
	}
	if _, err := d.Changes(ctx, reclaimStep("/gone", 1)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a cgroup that is gone: %v", err)
	}
}

// TestMin: memory.min is like memory.low: a cgroup above without bounds it.
func TestMin(t *testing.T) {
	m := slice(t)
	m.write("/", subtreeControl, "+memory")
	m.write("/a", subtreeControl, "+memory")
	m.put("/a", "memory.min", "0")
	m.put("/a/b", "memory.min", "0")
	d, s := m.driver(), value(plan.MemoryMin, "/a/b", "1048576")
	if _, err := d.Changes(ctx, s); err == nil || !strings.Contains(err.Error(), "memory.min of /a, which is 0 (MemoryMin=") {
		t.Error(err)
	}
	m.put("/a", "memory.min", "9999999")
	if _, err := d.Changes(ctx, s); err != nil {
		t.Error(err)
	}
}
