package control

import (
	"fmt"
	"strconv"

	"github.com/homenode/homenode/core/irq"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
)

// cards is a NIC on node 1 with four interrupts that go anywhere.
type cards struct {
	queues, most int // pairs in use; 0: the driver does not tell
}

func (f *fake) addCard() {
	f.cards = &cards{}
	for n := range 4 {
		f.set(plan.IRQAffinity, fmt.Sprintf("p/%d", 40+n), f.host().Online.String())
	}
}

// irqs is where each interrupt goes.
func (f *fake) irqs() map[string]string {
	out := map[string]string{}
	for key, x := range f.values {
		if key.kind == plan.IRQAffinity {
			out[key.path] = x.Value
		}
	}
	return out
}

func (c *cards) devices(f *fake) []irq.Device {
	if c == nil {
		return nil
	}
	d := irq.Device{Name: "eth0", Kind: topology.NIC, PCI: "p", Node: 1}
	if c.queues > 0 {
		d.Channels = []irq.Channels{{Name: "eth0", Now: c.queues, Most: c.most}}
	}
	for n := range max(4, c.most) {
		x, here := f.values[settingKey{plan.IRQAffinity, fmt.Sprintf("p/%d", 40+n)}]
		if !here {
			continue
		}
		cpus, err := topology.ParseCPUSet(x.Value)
		if err != nil {
			f.t.Fatal(err)
		}
		d.Interrupts = append(d.Interrupts, irq.Interrupt{Number: 40 + n, Name: fmt.Sprintf("eth0-TxRx-%d", n), CPUs: cpus})
	}
	return []irq.Device{d}
}

// give has a card use so many queues, with interrupts of the values given.
func (f *fake) give(now, most int, value func(int) string) {
	f.cards = &cards{queues: now, most: most}
	for key := range f.values {
		if key.kind == plan.IRQAffinity {
			delete(f.values, key)
		}
	}
	f.set(plan.QueueCount, "p/eth0", strconv.Itoa(now))
	for k := range now {
		f.set(plan.IRQAffinity, fmt.Sprintf("p/%d", 40+k), value(k))
	}
}

// count changes the number of queues: all interrupts are made anew.
func (c *cards) count(f *fake, text string) {
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > c.most {
		f.t.Errorf("%q queues of %d", text, c.most)
	}
	f.give(n, c.most, func(int) string { return f.host().Online.String() })
}

// placing surveys interrupts and puts them where they belong.
func placing(s *Settings) {
	s.Interrupts = InterruptsPlace
	s.Surveys = append(s.Surveys, Interrupts)
}
