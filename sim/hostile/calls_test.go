package hostile

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/homenode/homenode/core/control"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/share"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

func gone(what string) *control.Failure {
	return &control.Failure{Code: control.Gone, Text: what + " no longer exists"}
}

// changes reads what a step would change.
func (h *host) changes(s *plan.Step) ([]plan.Change, *control.Failure) {
	if s.Kind == plan.MovePages {
		return nil, nil
	}
	keys := h.targets(s)
	if h.lacks == plan.CPUController && slices.ContainsFunc(keys, func(k key) bool { return k.kind == h.lacks }) {
		return nil, &control.Failure{Code: control.Failed, Text: "needs the cpu controller"}
	}
	var out []plan.Change
	for _, k := range keys {
		c := h.cells[k]
		if c == nil {
			return nil, gone(k.path)
		}
		c.read, c.seen = h.event, c.theirs
		if k.kind.IsController() && c.value == will(k, s) {
			continue
		}
		x := plan.Change{Setting: h.setting(k), Will: will(k, s)}
		if k.kind == plan.Affinity {
			x.Ticks, x.Groups = h.ticks, "1 /"
		}
		out = append(out, x)
	}
	if len(out) == 0 {
		return nil, gone(string(s.Workload))
	}
	return out, nil
}

func (h *host) setting(k key) plan.Setting {
	c := h.cells[k]
	value := c.value
	if k.kind == plan.CacheTasks && value == anotherGroup {
		value = ""
	}
	return plan.Setting{Kind: k.kind, Path: k.path, Value: value, Object: c.object}
}

// apply makes a step true, of at most so many settings. What is wrong with that is said.
func (h *host) apply(s *plan.Step, most int) (*control.Failure, []string) {
	var wrong []string
	keys := h.targets(s)
	if len(keys) == 0 {
		return gone(string(s.Workload)), nil
	}
	for i, k := range keys {
		if i == most {
			return &control.Failure{Code: control.Failed, Text: "done in part"}, wrong
		}
		c := h.cells[k]
		if c == nil || k.path == s.Target.Cgroup && c.object != s.Target.Object {
			return gone(k.path), wrong
		}
		value := will(k, s)
		if k == theScheduler && (h.kernel.other != "" || !h.kernel.takes) {
			return &control.Failure{Code: control.Failed, Text: "another scheduler is loaded, or it cannot be"}, wrong
		}
		if k == theScheduler && (s.To == "below") != (h.kernel.under != "") {
			return &control.Failure{Code: control.Failed, Text: "it is made for another case"}, wrong
		}
		if k.kind == plan.CacheTasks && h.cells[theCache].value == "" {
			return gone(share.CacheGroup), wrong
		}
		if k.kind == h.lacks {
			return &control.Failure{Code: control.Failed, Text: "read-only file system"}, wrong
		}
		if k.kind == plan.CacheTasks && c.value == anotherGroup {
			continue
		}
		raced := c.wrote > c.read // somebody wrote between reading and now: nobody can see that
		if value == c.value {
			if raced { // nor that it was just this
				c.theirs = c.seen
			}
			continue
		}
		confines := c.value != h.nothing(k) && !c.back // what was so before homenode reads like a reset
		switch {
		case raced:
			c.theirs = c.seen
			if c.read == 0 {
				c.theirs = c.value
			}
		case c.ours() || c.set >= c.wrote || k.kind == plan.HostFile: // also when it set what others had; files are changed by who asks
		case confines && (c.ever || k.kind == plan.CgroupCPUs || k.kind == plan.Affinity || k.kind.IsCgroupFile()):
			wrong = append(wrong, fmt.Sprintf("%s %s, which somebody else set to %q, is set to %q", k.kind, k.path, c.value, value))
		case !confines && c.ever:
			if c.resets++; c.resets > 3 {
				wrong = append(wrong, fmt.Sprintf("%s %s went back to nothing and is set anew, for the %d. time", k.kind, k.path, c.resets))
			}
		}
		c.value, c.set, c.ever, c.back = value, h.event, true, false
	}
	return nil, wrong
}

func entryOf(disk map[uint64]plan.Entry, k key) *plan.Entry {
	for _, e := range disk {
		if e.Kind == k.kind && e.Path == k.path {
			return &e
		}
	}
	return nil
}

// restore puts back what is homenode's of entries, as package daemon does.
func (h *host) restore(entries []plan.Entry) []*control.Failure {
	out := make([]*control.Failure, len(entries))
	for i := range entries {
		e := &entries[i]
		k := key{e.Kind, e.Path}
		c := h.cells[k]
		switch {
		case c == nil:
			out[i] = gone(e.Path)
		case !e.Ours(h.setting(k)):
			out[i] = &control.Failure{Code: control.Foreign, Text: "somebody set it"}
		case e.Kind.IsController() && h.used(k):
			out[i] = &control.Failure{Code: control.InUse, Text: "cgroups below use it"}
		case h.locks(k):
			out[i] = notFrozen
		case k.kind == plan.CacheTasks && c.value == anotherGroup: // it is not homenode's to move
			c.set, c.ever, c.resets = 0, false, 0
		default:
			if c.value == e.New && !c.ours() { // somebody wrote just what homenode would: nobody can tell
				c.theirs = e.Old
			}
			h.putBack(c, e.Old)
		}
	}
	// What has inherited.
	for _, x := range h.inherited(entries, nil) {
		h.putBack(h.cells[key{x.Kind, x.Path}], x.Value)
	}
	return out
}

func (h *host) putBack(c *cell, old string) {
	c.value = old
	c.set, c.ever, c.resets = 0, false, 0
	h.cached()
}

// used reports whether a cgroup below has something of a controller.
func (h *host) used(controller key) bool {
	for k, c := range h.cells {
		of := k.kind == plan.CgroupCPUs || k.kind == plan.CgroupMems
		if controller.kind == plan.CPUController {
			of = k.kind.IsCgroupFile() && k.kind != plan.CgroupFreeze
		}
		if of && path.Dir(k.path) == controller.path && c.value != h.nothing(k) {
			return true
		}
	}
	return false
}

// inherited finds what has inherited from entries and has no entry among them.
func (h *host) inherited(entries []plan.Entry, among []workload.Process) []plan.Inherited {
	of := map[workload.Process]*plan.Entry{}
	for i := range entries {
		if p, err := plan.ParseProcessPath(entries[i].Path); err == nil && entries[i].Kind == plan.Affinity {
			of[p] = &entries[i]
		}
	}
	if len(of) == 0 {
		return nil
	}
	var out []plan.Inherited
	for _, p := range h.byPID {
		if of[p.Process] != nil || among != nil && !slices.Contains(among, p.Process) {
			continue
		}
		k := affinity(p.Process)
		if e := inheritsFrom(p, of); e != nil && gave(e, h.cells[k].value) && p.Start >= e.Ticks {
			out = append(out, plan.Inherited{Setting: plan.Setting{Kind: k.kind, Path: k.path, Value: e.Old, Groups: e.Groups, Ticks: e.Ticks}, Has: h.cells[k].value, Of: e.Seq})
		}
	}
	slices.SortFunc(out, func(a, b plan.Inherited) int { return strings.Compare(a.Path, b.Path) })
	return out
}

func inheritsFrom(p *process, of map[workload.Process]*plan.Entry) *plan.Entry {
	for a := p.parent; a != nil; a = a.parent {
		if e := of[a.Process]; e != nil {
			return e
		}
	}
	return nil
}

func gave(e *plan.Entry, value string) bool {
	return value != e.Old && (value == e.New || slices.Contains(e.Past, value))
}

// carry moves a part of what lies off home, and says whether that is all.
func (h *host) carry(s *plan.Step, most topology.KiB) (moved topology.KiB, done bool) {
	j := h.jobs[s.Workload]
	home, err := topology.ParseNodeSet(s.To)
	if j == nil || err != nil || home.Empty() {
		return 0, true
	}
	var to *workload.NodeMemory
	for i := range j.mem {
		if home.Has(j.mem[i].Node) {
			to = &j.mem[i]
		}
	}
	if to == nil {
		return 0, true
	}
	for i := range j.mem {
		if m := &j.mem[i]; !home.Has(m.Node) {
			part := min(m.KiB, most-moved)
			m.KiB, to.KiB, moved = m.KiB-part, to.KiB+part, moved+part
		}
	}
	return moved, moved < most
}

func (h *host) present(e *plan.Entry) *control.Failure {
	c := h.cells[key{e.Kind, e.Path}]
	if c == nil || e.Object != "" && c.object != e.Object {
		return gone(e.Path)
	}
	return nil
}
