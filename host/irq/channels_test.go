package irq

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/homenode/homenode/core/irq"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/host/internal/kernfile"
)

// counting is a tree whose NIC has a number of queues.
type counting struct {
	disk
	now, most int
	again     func() // what the driver sets anew with its queues; nil is nothing
}

func (c *counting) channels(dev string) (now, most int, err error) {
	if dev != "eth0" {
		return 0, 0, unix.EOPNOTSUPP
	}
	return c.now, c.most, nil
}

func (c *counting) setChannels(dev string, n int) error {
	if dev != "eth0" || n < 1 || n > c.most {
		return unix.EINVAL
	}
	c.now = n
	if c.again != nil {
		c.again()
	}
	return nil
}

var countStep = stepTo(plan.SetQueues, nic+"/eth0", "4")

func TestQueueCount(t *testing.T) {
	c := &counting{disk: disk{kernfile.Tree(machine(t))}, now: 2, most: 8}
	d := &Driver{&faulty{files: c}}
	h := &topology.Host{Devices: []topology.Device{{Name: "eth0", Kind: topology.NIC, PCI: nic, Node: 1}}}
	all, err := d.Devices(t.Context(), h)
	if err != nil || len(all) != 1 || len(all[0].Channels) != 1 || all[0].Channels[0] != (irq.Channels{Name: "eth0", Now: 2, Most: 8}) {
		t.Fatalf("%+v, %v", all, err)
	}
	// What the driver sets anew with the queues is journalled with their number.
	have, err := d.Changes(t.Context(), countStep)
	if err != nil || len(have) != 7 {
		t.Fatalf("%+v, %v", have, err)
	}
	kinds := map[plan.SettingKind]int{}
	for _, s := range have {
		kinds[s.Kind]++
	}
	if have[0] != (plan.Change{Setting: plan.Setting{Kind: plan.QueueCount, Path: nic + "/eth0", Value: "2"}, Will: "4"}) ||
		kinds[plan.IRQAffinity] != 2 || kinds[plan.RPSCPUs] != 3 || kinds[plan.XPSCPUs] != 1 {
		t.Errorf("%+v", have)
	}
	f := d.files.(*faulty)
	f.writes = 0
	for range 2 {
		if err := d.Apply(t.Context(), countStep, nil); err != nil {
			t.Fatal(err)
		}
	}
	if c.now != 4 || f.writes != 1 {
		t.Errorf("%d queues after %d writes", c.now, f.writes)
	}
	e := plan.Entry{Kind: plan.QueueCount, Path: nic + "/eth0", Old: "2"}
	if err := errors.Join(d.Present(e), restore(d, e), restore(d, e)); err != nil || c.now != 2 || f.writes != 2 {
		t.Errorf("%d queues after %d writes: %v", c.now, f.writes, err)
	}
	os.RemoveAll(c.Path("sys/class/net/eth0"))
	if err := d.Present(e); !kernfile.Gone(err) {
		t.Error(err)
	}
}

// The nth call fails, for every n: the number is as before, or the error tells.
func TestQueueCountNthCallFails(t *testing.T) {
	for _, errno := range []error{unix.EPERM, unix.ENODEV} {
		for n := 1; ; n++ {
			c := &counting{disk: disk{kernfile.Tree(machine(t))}, now: 2, most: 8}
			f := &faulty{files: c, failAt: n, err: errno}
			err := (&Driver{f}).Apply(t.Context(), countStep, nil)
			if f.calls < n {
				if err != nil || n < 5 {
					t.Fatalf("%d calls, %v", n, err)
				}
				break
			}
			if err == nil && c.now != 4 || err != nil && c.now != 2 && !kernfile.Gone(err) && !strings.Contains(err.Error(), "restore: ") {
				t.Errorf("call %d, %v: %d queues, %v", n, errno, c.now, err)
			}
			if errors.Is(err, plan.ErrFixed) {
				t.Errorf("call %d, %v: taken for a setting that nobody can change", n, errno)
			}
		}
	}
}

func TestQueueCountAcceptedAndNotDone(t *testing.T) {
	c := &counting{disk: disk{kernfile.Tree(machine(t))}, now: 2, most: 8}
	err := (&Driver{&faulty{files: c, stuck: true}}).Apply(t.Context(), countStep, nil)
	if err == nil || !strings.Contains(err.Error(), "it has 2 queues after 4 were set") {
		t.Error(err)
	}
}

func TestQueueCountPaths(t *testing.T) {
	for _, bad := range []string{"", nic, nic + "/", nic + "/..", nic + "/.", nic + "/a/b", "x/eth0", nic + "/a b"} {
		if _, err := parse(plan.QueueCount, bad); err == nil {
			t.Errorf("%q passes", bad)
		}
	}
	for _, bad := range []string{"", "0", "-1", "x", "0-3"} {
		if _, _, err := wanted(stepTo(plan.SetQueues, nic+"/eth0", bad)); err == nil {
			t.Errorf("to %q passes", bad)
		}
	}
	if _, _, err := wanted(stepTo(plan.SetQueues, nic+"/eth0", "1")); err != nil {
		t.Errorf("one queue: %v", err)
	}
}

// A device that counts receive and transmit queues apart has a note instead of a number,
// also when it could count them together.
func TestQueuesCountedApart(t *testing.T) {
	h := &topology.Host{Devices: []topology.Device{{Name: "eth0", Kind: topology.NIC, PCI: nic, Node: 1}}}
	for _, most := range []int{0, 8} {
		d := &Driver{&counting{disk: disk{kernfile.Tree(machine(t))}, most: most}}
		all, err := d.Devices(t.Context(), h)
		if err != nil || len(all) != 1 || len(all[0].Channels) > 0 || !strings.Contains(all[0].NoChannels, "apart") {
			t.Errorf("at most %d together: %+v, %v", most, all, err)
		}
	}
	d := &Driver{&counting{disk: disk{kernfile.Tree(machine(t))}, now: 1, most: 1}}
	if all, err := d.Devices(t.Context(), h); err != nil || len(all[0].Channels) != 1 || all[0].NoChannels != "" {
		t.Errorf("one of one: %+v, %v", all, err)
	}
}

// Only the machine itself can be asked.
func TestQueueCountOfATree(t *testing.T) {
	if _, _, err := (disk{kernfile.Tree(t.TempDir())}).channels("lo"); !errors.Is(err, unix.EOPNOTSUPP) {
		t.Error(err)
	}
}

// Drivers set interrupts and queues anew with their number. They get back what they had,
// so that nobody takes the driver's values for those of a person.
func TestQueueCountKeepsTheRest(t *testing.T) {
	root := machine(t)
	c := &counting{disk: disk{kernfile.Tree(root)}, now: 2, most: 8, again: func() {
		put(t, root, map[string]string{"proc/irq/40/smp_affinity_list": "0-7", "proc/irq/41/smp_affinity_list": "7",
			"sys/class/net/eth0/queues/rx-0/rps_cpus": "00"})
		os.RemoveAll(filepath.Join(root, "sys/class/net/eth0/queues/rx-10"))
	}}
	d := &Driver{c}
	placed := stepTo(plan.SetRPS, nic+"/eth0/rx-0", "4-7")
	var journal []plan.Entry
	for _, s := range []plan.Step{placed, countStep} {
		have, err := d.Changes(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		if err := d.Apply(t.Context(), s, nil); err != nil {
			t.Fatal(err)
		}
		for _, h := range have {
			journal = append(journal, plan.Entry{Kind: h.Kind, Path: h.Path, Old: h.Value, New: h.Will})
		}
	}
	read := func() {
		t.Helper()
		for _, e := range journal {
			now, err := d.Read(t.Context(), e)
			if kernfile.Gone(err) && strings.Contains(e.Path, "rx-10") {
				continue
			}
			if err != nil || !e.Ours(now) {
				t.Errorf("%s of %s is %q, %v; old %q, new %q", e.Kind, e.Path, now.Value, err, e.Old, e.New)
			}
		}
	}
	read()
	if errs := d.Restore(t.Context(), journal[1:2]); errs[0] != nil || c.now != 2 {
		t.Errorf("%v, %d queues", errs, c.now)
	}
	read()
}
