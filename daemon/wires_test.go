package daemon

import (
	"context"
	"fmt"
	"io/fs"
	"maps"
	"sync"

	"github.com/homenode/homenode/core/irq"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
)

// wires is a NIC on node 1 with four interrupts: survey and driver in one.
type wires struct {
	pci string
	mu  sync.Mutex
	at  map[string]string // CPU list by path
}

func newWires() *wires {
	w := &wires{pci: "p", at: map[string]string{}}
	for n := range 4 {
		w.at[fmt.Sprintf("p/%d", 40+n)] = "0-15"
	}
	return w
}

func (w *wires) devices() []irq.Device {
	w.mu.Lock()
	defer w.mu.Unlock()
	d := irq.Device{Name: "eth0", Kind: topology.NIC, PCI: w.pci, Node: 1}
	for n := range 4 {
		cpus, err := topology.ParseCPUSet(w.at[fmt.Sprintf("p/%d", 40+n)])
		if err != nil {
			panic(err)
		}
		d.Interrupts = append(d.Interrupts, irq.Interrupt{Number: 40 + n, Name: fmt.Sprintf("eth0-TxRx-%d", n), CPUs: cpus})
	}
	return []irq.Device{d}
}

func (w *wires) values() map[string]string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return maps.Clone(w.at)
}

func (w *wires) Owns() []plan.SettingKind           { return []plan.SettingKind{plan.IRQAffinity} }
func (w *wires) SurvivesBoot(plan.SettingKind) bool { return false }

func (w *wires) setting(path string) (plan.Setting, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	v, ok := w.at[path]
	if !ok {
		return plan.Setting{}, fs.ErrNotExist
	}
	return plan.Setting{Kind: plan.IRQAffinity, Path: path, Value: v}, nil
}

func (w *wires) Changes(_ context.Context, s plan.Step) ([]plan.Change, error) {
	now, err := w.setting(s.Target.Device)
	return []plan.Change{{Setting: now, Will: s.To}}, err
}

func (w *wires) Apply(_ context.Context, s plan.Step, _ func(plan.Move)) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.at[s.Target.Device] = s.To
	return nil
}

func (w *wires) Read(_ context.Context, e plan.Entry) (plan.Setting, error) {
	return w.setting(e.Path)
}

func (w *wires) Restore(_ context.Context, all []plan.Entry) []error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, e := range all {
		w.at[e.Path] = e.Old
	}
	return make([]error, len(all))
}

func (w *wires) Present(e plan.Entry) error {
	_, err := w.setting(e.Path)
	return err
}
