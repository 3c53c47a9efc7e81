package daemon

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/homenode/homenode/core/topology"
)

// TestNearMustNameADevice: a misspelt device was taken in silence.
func TestNearMustNameADevice(t *testing.T) {
	h := newMachine(t, 2, 4).host()
	h.Devices = []topology.Device{{Name: "eth0", PCI: "0000:81:00.0", Kind: topology.NIC}}
	c := NewConfig()
	c.Workloads = []Rule{{Match: "a", Near: []string{"eth0", "0000:81:00.0"}}, {Match: "b", Near: []string{"eht0"}}}
	told, err := c.suits(h)
	if want := []string{`workloads[1].near: this host has no device "eht0"`}; err != nil || !slices.Equal(told, want) {
		t.Errorf("told %q, %v; want %q", told, err, want)
	}
}

// TestReserveMustSuitTheHost: a reserve of all there is was taken in silence.
func TestReserveMustSuitTheHost(t *testing.T) {
	for _, tt := range []struct {
		cpus   string
		memory Size
		err    string // of Run
		told   string // in the history
	}{
		{"0-500", 0, "reserve.cpus: 0-500; leaves no CPU of 0-7 for work", ""},
		{"", 999 << 40, "reserve.memory: 999 TiB on every node; leaves no memory for work, the largest node has 8.0 GiB", ""},
		{"0,9-11", 0, "", "reserve.cpus: CPUs 9-11 are not on this host"},
		{"0-6", 7 << 30, "", ""},
	} {
		m := newMachine(t, 2, 4)
		r := newRig(t, m, Observe, func(c *Config) {
			c.Reserve.Memory = tt.memory
			var err error
			if c.Reserve.CPUs, err = topology.ParseCPUSet(tt.cpus); err != nil {
				t.Fatal(err)
			}
		})
		ctx, cancel := context.WithCancel(t.Context())
		r.o.Looked = func(bool) { cancel() }
		err := r.Run(ctx)
		if tt.err == "" && err != nil || tt.err != "" && (err == nil || !strings.Contains(err.Error(), tt.err)) {
			t.Errorf("reserve %q, %v: error %v, want %q", tt.cpus, tt.memory, err, tt.err)
		}
		if tt.err != "" && errors.Is(ctx.Err(), context.Canceled) {
			t.Errorf("reserve %q, %v: went on", tt.cpus, tt.memory)
		}
		cancel()
		told := ""
		for _, e := range r.history(t) {
			if strings.HasPrefix(e.Text, "reserve.") {
				told += e.Text
			}
		}
		if told != tt.told {
			t.Errorf("reserve %q, %v: told %q, want %q", tt.cpus, tt.memory, told, tt.told)
		}
	}
}
