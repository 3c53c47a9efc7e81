package main

import (
	"math"
	"os"
	"strings"
	"testing"
)

const twoNodes = "latency 80 140\nlatency 150 90\nbandwidth 64 32\nbandwidth 32 64\nhit 20\nnear 40\nfar 100 # ns\n"

func machineOf(t *testing.T, text string) machine {
	t.Helper()
	m, err := parseMachine(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// Each case is small enough to be reckoned by hand.
func TestModelledTime(t *testing.T) {
	m := machineOf(t, twoNodes)
	unbound := m
	unbound.bandwidth = nil
	for _, c := range []struct {
		name            string
		m               machine
		counted         map[place]access
		waited, carried float64
		threads         int
		time            float64
	}{
		{"nothing", m, nil, 0, 0, 4, 0},
		{"hits only", m, map[place]access{{0, 0, 0}: {loads: 6, stores: 4}}, 200, 0, 2, 100},
		{"a local and a remote miss", m, map[place]access{{0, 0, 0}: {loads: 1, misses: 1}, {0, 0, 1}: {stores: 1, misses: 1}}, 220, 2, 1, 220},
		{"the other direction costs what its cell says", m, map[place]access{{0, 1, 0}: {loads: 1, misses: 1}}, 150, 2, 1, 150},
		{"lines from caches", m, map[place]access{{0, 0, 1}: {loads: 5, near: 1, far: 2}}, 2*20 + 40 + 200, 0, 1, 280},
		{"many threads wait for the memory", m, map[place]access{{0, 0, 1}: {loads: 100, misses: 100}}, 14000, 200, 100, 200},
		{"without bandwidths they wait for latency only", unbound, map[place]access{{0, 0, 1}: {loads: 100, misses: 100}}, 14000, 0, 100, 140},
		{"no threads are one", m, map[place]access{{0, 0, 0}: {loads: 1}}, 20, 0, 0, 20},
		{"four nodes on a machine of two: far is far", m, map[place]access{{0, 2, 0}: {loads: 1, misses: 1}}, 140, 2, 1, 140},
		{"and near is near", m, map[place]access{{0, 3, 3}: {loads: 1, misses: 1}}, 90, 1, 1, 90},
		{"memory of no node is left out", m, map[place]access{{0, 0, -1}: {loads: 7, misses: 7}}, 0, 0, 1, 0},
	} {
		got := c.m.pay(c.counted)
		if math.Abs(got.waited-c.waited) > 1e-9 || math.Abs(got.carried-c.carried) > 1e-9 || math.Abs(got.time(c.threads)-c.time) > 1e-9 {
			t.Errorf("%s: %+v, %v ns; want %v, %v and %v ns", c.name, got, got.time(c.threads), c.waited, c.carried, c.time)
		}
	}
}

// A line that moves from remote to local memory never makes the modelled time longer, as long as
// local memory is the faster.
func TestModelledTimeFallsWithLocality(t *testing.T) {
	m := machineOf(t, "latency 81.6 145.9\nlatency 144.9 81.2\nhit 20\nnear 45\nfar 130\n")
	last := math.Inf(1)
	for local := range uint64(101) {
		counted := map[place]access{{0, 0, 0}: {loads: local, misses: local}, {0, 0, 1}: {loads: 100 - local, misses: 100 - local}}
		now := m.pay(counted).time(4)
		if now >= last {
			t.Fatalf("%d %% local: %v ns, with one percent less %v", local, now, last)
		}
		last = now
	}
}

func TestParseMachineRefuses(t *testing.T) {
	for name, text := range map[string]string{
		"empty":          "",
		"not square":     "latency 80 140\nhit 1\nnear 1\nfar 1\n",
		"bandwidth less": "latency 80 140\nlatency 140 80\nbandwidth 10 10\nhit 1\nnear 1\nfar 1\n",
		"no hit":         "latency 80\nnear 1\nfar 1\n",
		"no time":        "latency 0\nhit 1\nnear 1\nfar 1\n",
		"negative":       "latency -1\nhit 1\nnear 1\nfar 1\n",
		"not a number":   "latency NaN\nhit 1\nnear 1\nfar 1\n",
		"a word":         "latency fast\nhit 1\nnear 1\nfar 1\n",
		"unknown":        "speed 1\nlatency 80\nhit 1\nnear 1\nfar 1\n",
		"two hits":       "latency 80\nhit 1 2\nnear 1\nfar 1\n",
	} {
		if m, err := parseMachine(strings.NewReader(text)); err == nil {
			t.Errorf("%s: taken for %+v", name, m)
		}
	}
}

func TestMachinesParse(t *testing.T) {
	files, err := os.ReadDir("../machines")
	if err != nil || len(files) == 0 {
		t.Fatalf("no machines: %v", err)
	}
	for _, f := range files {
		b, err := os.ReadFile("../machines/" + f.Name())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := parseMachine(strings.NewReader(string(b))); err != nil {
			t.Errorf("%s: %v", f.Name(), err)
		}
	}
}
