//go:build linux

package home

import (
	"fmt"
	"strings"
	"time"

	"github.com/homenode/homenode/e2e/guest/lab"
)

// tierRules makes the web important and the jobs batch work.
const tierRules = "workloads: [{match: /web, tier: online-strict}, {match: /job, tier: batch}]\n"

const (
	webMiB = 160
	// jobMiB is more than a node of DRAM has with the web and the kernel in it. There is a job on each, bound to it:
	// without a policy the kernel gives new memory of the slow node as soon as DRAM is short, and demotes nothing.
	jobMiB = 460
	// jobRuns is how many jobs run one after another in a phase.
	jobRuns = 3
	// jobTime is how long a job runs once it has its memory.
	jobTime = 8 * time.Second
)

// tiersShare: an important service and batch jobs that come and go want more DRAM than there is. The service walks
// evenly over all its memory. It prints the share of that memory in DRAM with the kernel alone and with memory.low,
// which the LRU of generations hardly heeds, and wants 95 % with memory.min. No job is killed for want of memory. Undo
// after kill -9 restores every setting.
func tiersShare(t *lab.T) {
	t.Write(demotionFile, "true")
	t.Defer(func() { lab.WriteText(demotionFile, "false") })
	web := t.StartWalkers(lab.CgroupRoot, lab.WalkerSpec{
		Name: "web", Slot: 0, MiB: webMiB, Threads: 1, Place: "bind:0", Unbind: true, Sleep: "200ms",
	})[0]
	job := t.NewGroup(lab.CgroupRoot, "job")
	balancing := lab.OneLine(lab.ReadText(lab.BalancingFile))
	aging := lab.OneLine(lab.ReadText("/sys/kernel/mm/lru_gen/enabled"))
	t.Logf("tiers: %s, numa_balancing %s, lru_gen %s", tiersOfKernel(), balancing, aging)

	off := inDRAM(t, web, job, "homenode off")
	rows := []string{fmt.Sprintf("homenode off %.1f %%", 100*off)}
	enough := true
	before := tierState(web.Group, job)
	for _, protect := range []string{"low", "min"} {
		o := lab.DaemonOptions{Mode: "enforce", Extra: tierRules + "tiers: {mode: place, protect: " + protect + "}\n"}
		d := t.StartDaemon(o)
		file := "memory." + protect
		t.Until(90*time.Second, "the web has "+file, func() (bool, string) {
			got := strings.TrimSpace(lab.ReadText(web.Group.File(file)))
			return got != "0" && got != "", got
		})
		inDRAM(t, web, job, "settling with "+file)
		on := inDRAM(t, web, job, "homenode with "+file)
		rows = append(rows, fmt.Sprintf("homenode with %s %.1f %%", file, 100*on))
		t.LogLines("explain", t.Must(lab.Homenode("explain", web.ID()), lab.ExitOK).Out, 40)
		t.LogLines("history", t.Must(lab.Homenode("history"), lab.ExitOK).Out, 40)
		t.Alive(d)
		d.Kill9()
		t.Must(lab.Homenode("undo", "--all"), lab.ExitOK)
		if now := tierState(web.Group, job); now != before {
			t.Fatalf("undone after kill -9: %s, was %s", now, before)
		}
		t.Must(lab.Homenode("resume", "--all"), lab.ExitOK)
		lab.FreshState()
		enough = enough && (protect != "min" || on >= 0.95)
	}
	t.Walking([]*lab.Walker{web})
	if !enough {
		t.Fatalf("too little with memory.min: %s", strings.Join(rows, ", "))
	}
	t.Textf("of the web's accesses from DRAM: %s; undone after kill -9", strings.Join(rows, ", "))
}

// tierState is the files of cgroups that homenode may change for memory tiers.
func tierState(groups ...lab.Group) string {
	var out []string
	for _, g := range groups {
		for _, f := range []string{"memory.low", "memory.min"} {
			out = append(out, g.Path()+" "+f+" "+lab.ReadText(g.File(f)))
		}
	}
	return strings.Join(out, "")
}

// inDRAM has jobs run one after another, and returns the mean share of the web's memory in DRAM meanwhile.
func inDRAM(t *lab.T, web *lab.Walker, job lab.Group, phase string) float64 {
	const slow = 2
	sum, n := 0.0, 0
	var all []string
	for run := range jobRuns {
		var jobs []*lab.Walker
		for node := range slow {
			w := &lab.Walker{Group: job, WalkerSpec: lab.WalkerSpec{
				Name: fmt.Sprintf("job %d on node %d", run, node), Slot: 1 + node, MiB: jobMiB, Threads: 1,
				Place: fmt.Sprintf("bind:%d", node), Busy: true,
			}}
			t.Do(w.Start())
			t.Defer(w.Kill)
			jobs = append(jobs, w)
		}
		for _, w := range jobs {
			t.Expect(w, "ready")
		}
		for end := time.Now().Add(jobTime); time.Now().Before(end); lab.Warm(time.Second) {
			on := t.Buffer(web).Nodes
			share := 1 - float64(on[slow])/float64(webMiB*mibPages)
			sum += share
			n++
			all = append(all, fmt.Sprintf("%.0f", 100*share))
		}
		for _, w := range jobs {
			w.Kill()
		}
	}
	t.Logf("%s: %s %%; %s", phase, strings.Join(all, " "), lab.OneLine(vmstat("pgdemote")))
	return sum / float64(n)
}
