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
)

// counting is a tree whose NIC has a number of queues.
type counting struct {
	disk
	now, most int
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
	return nil
}

var countStep = stepTo(plan.SetQueues, nic+"/eth0", "4")

func TestQueueCount(t *testing.T) {
	c := &counting{disk{machine(t)}, 2, 8}
	d := &Driver{&faulty{files: c}}
	h := &topology.Host{Devices: []topology.Device{{Name: "eth0", Kind: topology.NIC, PCI: nic, Node: 1}}}
	all, err := d.Devices(t.Context(), h)
	if err != nil || len(all) != 1 || len(all[0].Channels) != 1 || all[0].Channels[0] != (irq.Channels{Name: "eth0", Now: 2, Most: 8}) {
		t.Fatalf("%+v, %v", all, err)
	}
	// What the driver sets anew with the queues is journalled with their number.
	have, err := d.Settings(t.Context(), countStep)
	if err != nil || len(have) != 7 {
		t.Fatalf("%+v, %v", have, err)
	}
	kinds := map[plan.SettingKind]int{}
	for _, s := range have {
		kinds[s.Kind]++
	}
	if have[0] != (plan.Setting{Kind: plan.QueueCount, Path: nic + "/eth0", Value: "2"}) ||
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
	if err := errors.Join(d.Present(e), d.Restore(t.Context(), e), d.Restore(t.Context(), e)); err != nil || c.now != 2 || f.writes != 2 {
		t.Errorf("%d queues after %d writes: %v", c.now, f.writes, err)
	}
	os.RemoveAll(filepath.Join(c.root, "sys/class/net/eth0"))
	if err := d.Present(e); !gone(err) {
		t.Error(err)
	}
}

// The nth call fails, for every n: the number is as before, or the error tells.
func TestQueueCountNthCallFails(t *testing.T) {
	for _, errno := range []error{unix.EPERM, unix.ENODEV} {
		for n := 1; ; n++ {
			c := &counting{disk{machine(t)}, 2, 8}
			f := &faulty{files: c, failAt: n, err: errno}
			err := (&Driver{f}).Apply(t.Context(), countStep, nil)
			if f.calls < n {
				if err != nil || n < 5 {
					t.Fatalf("%d calls, %v", n, err)
				}
				break
			}
			if err == nil || c.now != 2 && !gone(err) && !strings.Contains(err.Error(), "put back") {
				t.Errorf("call %d, %v: %d queues, %v", n, errno, c.now, err)
			}
			if errors.Is(err, plan.ErrFixed) {
				t.Errorf("call %d, %v: taken for a setting that nobody can change", n, errno)
			}
		}
	}
}

func TestQueueCountAcceptedAndNotDone(t *testing.T) {
	c := &counting{disk{machine(t)}, 2, 8}
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
}

// Only the machine itself can be asked.
func TestQueueCountOfATree(t *testing.T) {
	if _, _, err := (disk{t.TempDir()}).channels("lo"); !errors.Is(err, unix.EOPNOTSUPP) {
		t.Error(err)
	}
}
