package main

import (
	"errors"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/homenode/homenode/core/topology"
)

func hostOf(t *testing.T, synthetic string) *topology.Host {
	t.Helper()
	h, err := topology.FromSynthetic(synthetic)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func TestSplit(t *testing.T) {
	for _, c := range []struct{ machine, experiment, generator, why string }{
		{"node:2 core:4 pu:2", "0-3,8-11", "4-7,12-15", ""},
		{"node:4 core:2 pu:1", "0-1", "6-7", ""},
		{"node:1 core:8 pu:2", "0-5,8-13", "6-7,14-15", ""},
		{"node:1 core:4 pu:1", "0-2", "3", ""},
		{"node:1 core:3 pu:1", "", "", "3 CPUs"},
		{"node:1 core:1 pu:4", "", "", "one core"},
	} {
		e, g, err := split(hostOf(t, c.machine))
		if c.why != "" {
			if not := (errCannot{}); !errors.As(err, &not) || !strings.Contains(err.Error(), c.why) {
				t.Errorf("%s: %v, want %q", c.machine, err, c.why)
			}
			continue
		}
		if err != nil || e.String() != c.experiment || g.String() != c.generator {
			t.Errorf("%s: %s and %s, want %s and %s: %v", c.machine, e, g, c.experiment, c.generator, err)
		}
	}
}

func TestReady(t *testing.T) {
	v2 := fstest.MapFS{"sys/fs/cgroup/cgroup.controllers": {Data: []byte("cpuset cpu io memory\n")}}
	for _, c := range []struct {
		name string
		tree fstest.MapFS
		uid  int
		why  string
	}{
		{"v2", v2, 0, ""},
		{"a user", v2, 1000, "not root"},
		{"v1", fstest.MapFS{"sys/fs/cgroup/cpu/tasks": {}}, 0, "no cgroup v2"},
		{"no cpuset", fstest.MapFS{"sys/fs/cgroup/cgroup.controllers": {Data: []byte("cpu\n")}}, 0, "lacks the controller cpuset"},
	} {
		err := ready(c.tree, c.uid)
		if c.why == "" {
			if err != nil {
				t.Errorf("%s: %v", c.name, err)
			}
			continue
		}
		if not := (errCannot{}); !errors.As(err, &not) || !strings.Contains(err.Error(), c.why) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, want one line with %q", c.name, err, c.why)
		}
	}
}

func TestCounters(t *testing.T) {
	cpus, _ := topology.ParseCPUSet("0,2")
	busy, all := busyTicks("cpu  9 9 9 9 9 9 9 9 9 9\ncpu0 1 2 3 40 5 6 7 8 1 0\ncpu1 100 0 0 0 0 0 0 0 0 0\ncpu2 10 0 0 90 0 0 0 0 0 0\nintr 5\n", cpus)
	if busy != 1+2+3+6+7+8+10 || all != 72+100 {
		t.Errorf("%v busy of %v ticks", busy, all)
	}
	const x86 = "           CPU0       CPU1       CPU2\n  0:  44 0 0 IO-APIC 2-edge timer\nRES:  100 200 300   Rescheduling interrupts\nCAL:  1 2 3   Function call interrupts\nTLB:  7 7 7   TLB shootdowns\nERR:  0\n"
	if n := interprocessor(x86, cpus); n != 100+300+1+3 {
		t.Errorf("%v IPIs", n)
	}
	const arm = "           CPU0       CPU2\nIPI0:  5 6  Rescheduling interrupts\nIPI1:  1 1  Function call interrupts\n"
	if n := interprocessor(arm, cpus); n != 13 {
		t.Errorf("%v IPIs on arm64", n)
	}
	if n := interprocessor("nothing\n", cpus); n != 0 {
		t.Errorf("%v IPIs of nothing", n)
	}
}
