package observe

import (
	"bytes"
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/homenode/homenode/core/workload"
	"github.com/homenode/homenode/host/internal/proc"
	"github.com/homenode/homenode/host/observe/files"
)

const (
	// groupsEvery is how old the list of resctrl groups and of their tasks may get.
	groupsEvery = 10 * time.Second
	// groupTasks bounds the lists of tasks that are read a look: for each the kernel goes
	// over all threads of the machine.
	groupTasks = 8
	// groupFiles bounds the counters that are read a look, beside mbmFiles.
	groupFiles = 128
	// groupStrangers bounds how many threads that were not seen before are asked whose
	// they are; a group with more is looked at again when its threads have been seen.
	groupStrangers = 64
	// groupCover is the part of a workload's CPU time that its groups must have had for
	// their traffic to be the workload's.
	groupCover = 0.8
	// leastTraffic is the bytes over which a share of local traffic says something.
	leastTraffic = 1 << 20
)

// groups are the resctrl groups that somebody else has made: control groups, whose
// counters and tasks are those of their monitoring groups too, and monitoring groups
// (Documentation/filesystems/resctrl.rst).
type groups struct {
	listedAt time.Time
	all      []*group // a control group before its monitoring groups
}

type group struct {
	dir    string
	within *group // the control group of a monitoring group; nil at the root
	tasks  []int
	at     time.Time // of tasks
	of     *work     // whose alone the tasks are; nil for none
}

// grouped is the traffic of a workload by the counters of its groups.
type grouped struct {
	dirs         []string
	files        int
	local, total uint64 // bytes, as of at
	at, tried    time.Time
	overChange   bool // since at memory or CPUs have changed

	mibs      int64 // MiB/s
	share     float64
	known     bool      // share is
	settledAt time.Time // of mibs and share; zero for none
}

// readGroups finds the traffic of the workloads that have groups of their own, the
// longest unread first, as far as the budget goes.
func (o *Observer) readGroups(reported []*work) {
	g := &o.groups
	if g.listedAt.IsZero() || o.now.Sub(g.listedAt) >= groupsEvery {
		g.listedAt = o.now
		o.listGroups()
	}
	if len(g.all) == 0 {
		return
	}
	if o.readTasks() {
		o.assignGroups(reported)
	}
	var due []*work
	for _, w := range reported {
		if len(w.grouped.dirs) > 0 && o.now.Sub(w.grouped.tried) >= shortWindow {
			due = append(due, w)
		}
	}
	slices.SortStableFunc(due, func(a, b *work) int { return a.grouped.tried.Compare(b.grouped.tried) })
	for read, i := 0, 0; i < len(due) && read < groupFiles; i++ {
		read += o.readGrouped(&due[i].grouped)
	}
}

// listGroups lists the groups and keeps what is known of those that stay.
func (o *Observer) listGroups() {
	known := map[string]*group{}
	for _, g := range o.groups.all {
		known[g.dir] = g
	}
	o.groups.all = nil
	add := func(dir string, within *group) *group {
		g := known[dir]
		if g == nil {
			g = &group{dir: dir}
		}
		g.within = within
		o.groups.all = append(o.groups.all, g)
		return g
	}
	monitors := func(dir string, within *group) {
		names, _, _ := o.files.Subdirs(dir+"/mon_groups", nil)
		for _, name := range names {
			add(dir+"/mon_groups/"+name, within)
		}
	}
	names, _, err := o.files.Subdirs(resctrl, nil)
	if err != nil {
		return
	}
	monitors(resctrl, nil)
	for _, name := range names {
		if name != "info" && name != "mon_groups" && name != "mon_data" {
			monitors(resctrl+"/"+name, add(resctrl+"/"+name, nil))
		}
	}
}

// readTasks brings the oldest lists of tasks up to date, and reports whether any was old.
func (o *Observer) readTasks() bool {
	byAge := slices.Clone(o.groups.all)
	slices.SortStableFunc(byAge, func(a, b *group) int { return a.at.Compare(b.at) })
	read := false
	for _, g := range byAge[:min(len(byAge), groupTasks)] {
		if !g.at.IsZero() && o.now.Sub(g.at) < groupsEvery {
			break
		}
		g.at = o.now
		g.tasks = g.tasks[:0]
		read = true
		// What runs on the CPUs of a group counts there too, whosever it is.
		if b, err := o.files.Read(g.dir+"/cpus_list", o.buf); err != nil || len(bytes.TrimSpace(b)) > 0 {
			continue
		}
		if b, err := o.files.Read(g.dir+"/tasks", o.buf); err == nil {
			g.tasks = appendPIDs(g.tasks, b)
		}
	}
	return read
}

// assignGroups finds for each workload the groups that hold its threads and no others.
func (o *Observer) assignGroups(reported []*work) {
	type thread struct {
		w     *work
		ticks uint64
	}
	threads := map[int]thread{}
	all := map[*work]uint64{} // ticks
	for _, w := range reported {
		for _, p := range w.procs {
			if len(p.seenTicks) == 0 {
				threads[p.pid] = thread{w, p.ticks}
				all[w] += p.ticks
			}
			for _, t := range p.seenTicks {
				threads[t.tid] = thread{w, t.ticks}
				all[w] += t.ticks
			}
		}
	}
	strangers := groupStrangers
	dirs, has := map[*work][]string{}, map[*work]uint64{}
	for _, g := range o.groups.all {
		g.of = nil
		var ticks uint64
		for _, tid := range g.tasks {
			if t := threads[tid]; t.w != nil {
				g.of = t.w
				ticks += t.ticks
			}
		}
		for _, tid := range g.tasks {
			t, ok := threads[tid]
			if g.of == nil || t.w == g.of {
				continue
			}
			strangers--
			if ok || strangers < 0 || !o.hasThread(g.of, tid) {
				g.of = nil
			}
		}
		if g.of != nil && (g.within == nil || g.within.of != g.of) {
			dirs[g.of] = append(dirs[g.of], g.dir)
			has[g.of] += ticks
		}
	}
	for _, w := range reported {
		own := dirs[w]
		if all[w] == 0 || float64(has[w]) < groupCover*float64(all[w]) {
			own = nil
		}
		slices.Sort(own)
		if !slices.Equal(own, w.grouped.dirs) {
			w.grouped = grouped{dirs: own}
		}
	}
}

// hasThread reports whether a thread that was not seen before is one of the workload's.
func (o *Observer) hasThread(w *work, tid int) bool {
	for _, p := range w.procs {
		if _, err := o.files.Record(proc.TaskFile(p.pid, tid, "stat"), o.buf); err == nil {
			return true
		}
	}
	return false
}

// readGrouped reads the counters of all groups of a workload and returns how many files
// that took. A counter that tells nothing ("Unavailable", "Error", "Unassigned") makes it
// wait: what the others count until then is not lost.
func (o *Observer) readGrouped(g *grouped) int {
	var local, total uint64
	read := 0
	locals := 0
	totals := 0
	whole := true
	for _, dir := range g.dirs {
		domains, _, err := o.files.Subdirs(dir+"/mon_data", nil)
		whole = whole && err == nil
		for _, d := range domains {
			if !strings.HasPrefix(d, "mon_L3_") {
				continue
			}
			d = dir + "/mon_data/" + d
			for _, c := range []struct {
				name string
				sum  *uint64
				n    *int
			}{{"/mbm_local_bytes", &local, &locals}, {"/mbm_total_bytes", &total, &totals}} {
				b, err := o.files.Read(d+c.name, o.buf)
				if files.Gone(err) {
					continue // not counted on this processor
				}
				read++
				n, ok := proc.Number(bytes.TrimSpace(b))
				if err != nil || !ok || n > 1<<62/256 {
					whole = false
					continue
				}
				*c.sum += n
				*c.n++
			}
		}
	}
	g.tried = o.now
	window, before := o.now.Sub(g.at), *g
	if !whole || read == 0 {
		return max(read, 1)
	}
	g.local = local
	g.total = total
	g.files = read
	g.at = o.now
	g.overChange = false
	if before.files != read || before.overChange || local < before.local || total < before.total {
		return read
	}
	all, near := total-before.total, local-before.local
	g.known = locals == totals && max(all, near) >= leastTraffic
	if totals == 0 {
		all = near
	}
	all = max(all, near) // the two are not read in one moment
	if g.known {
		g.share = float64(near) / float64(all)
	}
	g.mibs, g.settledAt = int64(float64(all)/(1<<20)/window.Seconds()+0.5), o.now
	return read
}

// traffic is the MiB/s of a workload by the counters of its groups; 0 when none tells.
func (g *grouped) traffic(now time.Time) int64 {
	if g.settledAt.IsZero() || now.Sub(g.settledAt) >= countOld {
		return 0
	}
	return g.mibs
}

// accesses is what of a workload's traffic stayed on its node.
func (g *grouped) accesses(now time.Time) workload.Accesses {
	if !g.known || g.traffic(now) == 0 {
		return workload.Accesses{}
	}
	return workload.Accesses{From: workload.MBM, Local: g.share}
}

// forget drops the figures: memory or CPUs are others now. What was read in the look at
// now is taken to be from after the change.
func (g *grouped) forget(now time.Time) {
	g.known = false
	g.settledAt = time.Time{}
	g.overChange = !g.at.Equal(now)
}

// accesses is the better of what was counted by group and by the workload's other sources.
func (w *work) accesses(now time.Time) workload.Accesses {
	own := w.access.best(now)
	if own.From == workload.Counters {
		return own
	}
	return cmp.Or(w.grouped.accesses(now), own)
}
