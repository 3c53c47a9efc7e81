//go:build linux

package main

import (
	"fmt"
	"strings"
	"time"
)

func init() {
	tests["tiers.share"] = tiersShare
}

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
// evenly over all its memory. It prints the share of that memory in DRAM with the kernel alone, and wants 95 % with
// memory.min, and with memory.low much more than the kernel alone gives: the LRU of generations only reclaims such
// work last in each round. Undo after kill -9 restores every setting.
func tiersShare(t *T) {
	t.write(demotionFile, "true")
	t.Defer(func() { writeText(demotionFile, "false") })
	web := t.startWalkers(cgroupRoot, walkerSpec{
		name: "web", slot: 0, mib: webMiB, threads: 1, place: "bind:0", unbind: true, sleep: "200ms",
	})[0]
	job := t.newGroup(cgroupRoot, "job")
	balancing, aging := oneLine(readText(balancingFile)), oneLine(readText("/sys/kernel/mm/lru_gen/enabled"))
	t.Logf("tiers: %s, numa_balancing %s, lru_gen %s", tiersOfKernel(), balancing, aging)

	off := t.inDRAM(web, job, "homenode off")
	rows := []string{fmt.Sprintf("homenode off %.1f %%", 100*off)}
	var missed []string
	before := tierState(web.group, job)
	for _, protect := range []string{"low", "min"} {
		o := daemonOptions{mode: "enforce", extra: tierRules + "tiers: {mode: place, protect: " + protect + "}\n"}
		d := t.startDaemon(o)
		file := "memory." + protect
		t.Until(90*time.Second, "the web has "+file, func() (bool, string) {
			got := strings.TrimSpace(readText(web.group.file(file)))
			return got != "0" && got != "", got
		})
		t.inDRAM(web, job, "settling with "+file)
		on := t.inDRAM(web, job, "homenode with "+file)
		rows = append(rows, fmt.Sprintf("homenode with %s %.1f %%", file, 100*on))
		t.logLines("explain", t.must(homenode("explain", web.id()), exitOK).out, 40)
		t.logLines("history", t.must(homenode("history"), exitOK).out, 40)
		t.alive(d)
		d.kill9()
		t.must(homenode("undo", "--all"), exitOK)
		if now := tierState(web.group, job); now != before {
			t.Fatalf("undone after kill -9: %s, was %s", now, before)
		}
		t.must(homenode("resume", "--all"), exitOK)
		freshState()
		if least := map[string]float64{"low": off + 0.25, "min": 0.95}; on < min(0.95, least[protect]) {
			missed = append(missed, file)
		}
	}
	t.walking([]*walker{web})
	if len(missed) > 0 {
		t.Fatalf("too little with %s: %s", strings.Join(missed, ", "), strings.Join(rows, ", "))
	}
	t.Textf("of the web's accesses from DRAM: %s; undone after kill -9", strings.Join(rows, ", "))
}

// tierState is the files of cgroups that homenode may change for memory tiers.
func tierState(groups ...group) string {
	var out []string
	for _, g := range groups {
		for _, f := range []string{"memory.low", "memory.min"} {
			out = append(out, g.path()+" "+f+" "+readText(g.file(f)))
		}
	}
	return strings.Join(out, "")
}

// inDRAM has jobs run one after another, and returns the mean share of the web's memory in DRAM meanwhile.
func (t *T) inDRAM(web *walker, job group, phase string) float64 {
	const slow = 2
	sum, n := 0.0, 0
	var all []string
	for run := range jobRuns {
		var jobs []*walker
		for node := range slow {
			w := &walker{group: job, walkerSpec: walkerSpec{
				name: fmt.Sprintf("job %d on node %d", run, node), slot: 1 + node, mib: jobMiB, threads: 1,
				place: fmt.Sprintf("bind:%d", node), busy: true,
			}}
			t.Do(w.start())
			t.Defer(w.kill)
			jobs = append(jobs, w)
		}
		for _, w := range jobs {
			t.expect(w, "ready")
		}
		for end := time.Now().Add(jobTime); time.Now().Before(end); warm(time.Second) {
			on := t.buffer(web).nodes
			share := 1 - float64(on[slow])/float64(webMiB*mibPages)
			sum += share
			n++
			all = append(all, fmt.Sprintf("%.0f", 100*share))
		}
		for _, w := range jobs {
			w.kill()
		}
	}
	t.Logf("%s: %s %%; %s", phase, strings.Join(all, " "), oneLine(vmstat("pgdemote")))
	return sum / float64(n)
}
