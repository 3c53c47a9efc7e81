package daemon

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/homenode/homenode/core/doctor"
	"github.com/homenode/homenode/core/measure"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// rivalsEvery is the time between two searches for other managers: each reads the name
// of every process, 10 µs apiece, so that 3,000 processes cost 0.1 % of a CPU.
const rivalsEvery = 30 * time.Second

// rivals is the other programs that place things on this host, and when they were
// last looked for.
type rivals struct {
	at  time.Time
	all []measure.Manager
}

// seekRivals brings the list of other managers up to date and tells of changes. Only
// the loop calls it.
func (d *Daemon) seekRivals(h *topology.Host) {
	now := d.o.Clock.Now()
	d.mu.Lock()
	before := d.rivals
	d.mu.Unlock()
	if d.o.Rivals == nil || !before.at.IsZero() && now.Sub(before.at) < rivalsEvery {
		return
	}
	all := d.o.Rivals(h)
	d.mu.Lock()
	d.rivals = rivals{now, all}
	d.mu.Unlock()
	among := func(all []measure.Manager, m measure.Manager) bool {
		return slices.ContainsFunc(all, func(x measure.Manager) bool { return reflect.DeepEqual(x, m) })
	}
	for _, m := range before.all {
		if !among(all, m) && !slices.ContainsFunc(all, func(x measure.Manager) bool { return x.Name == m.Name }) {
			d.event(plan.Event{Kind: plan.EventHost, Text: fmt.Sprintf("%s is gone; it was: %s", m.Name, m.Does)})
		}
	}
	for _, m := range all {
		if !among(before.all, m) {
			text := fmt.Sprintf("%s: %s", m.Name, m.Does)
			if m.Owns != "" {
				text += "; left to it: " + m.Owns
			}
			d.event(plan.Event{Kind: plan.EventHost, Text: text})
		}
	}
}

// cpus is what the others keep for work of their own.
func (r rivals) cpus() topology.CPUSet {
	var out topology.CPUSet
	for _, m := range r.all {
		out = out.Union(m.CPUs)
	}
	return out
}

func (r rivals) find(name string) *measure.Manager {
	i := slices.IndexFunc(r.all, func(m measure.Manager) bool { return m.Name == name })
	if i < 0 {
		return nil
	}
	return &r.all[i]
}

// owner says to whom a workload is left, a sentence; "" when to nobody.
func (r rivals) owner(id workload.ID) string {
	if m := r.find(doctor.Libvirt); m != nil {
		if guest, ok := libvirtGuest(id); ok && slices.Contains(m.Guests, guest) {
			return "libvirt runs this guest and its definition pins it by hand; homenode vm adopt places it once the pins are taken out."
		}
	}
	if m := r.find(doctor.Kubelet); m != nil && ofKubelet(id) {
		return fmt.Sprintf("The kubelet owns this pod (%s) and would write its CPU set again.", m.Does)
	}
	if m := r.find(doctor.Numad); m != nil {
		return fmt.Sprintf("numad runs: it %s, and two movers would work against each other. It is placed when numad has stopped.", m.Does)
	}
	return ""
}

// ofKubelet reports whether a cgroup is a pod's or of one: below kubepods.slice under
// systemd, else below kubepods; nested kubelets write kubelet-kubepods.slice
// (pkg/kubelet/cm, cgroup roots).
func ofKubelet(id workload.ID) bool {
	for part := range strings.SplitSeq(string(id), "/") {
		switch strings.TrimSuffix(part, ".slice") {
		case "kubepods", "kubelet-kubepods":
			return true
		}
	}
	return false
}

// libvirtGuest is the name of the guest that a cgroup of libvirt belongs to; see ofLibvirt.
func libvirtGuest(id workload.ID) (string, bool) {
	for part := range strings.SplitSeq(string(id), "/") {
		if scope, ok := strings.CutPrefix(part, `machine-qemu\x2d`); ok {
			_, name, ok := strings.Cut(strings.TrimSuffix(scope, ".scope"), `\x2d`)
			return strings.ReplaceAll(name, `\x2d`, "-"), ok
		}
		if old, ok := strings.CutSuffix(part, ".libvirt-qemu"); ok {
			if _, name, ok := strings.Cut(strings.TrimPrefix(old, "qemu-"), "-"); ok {
				return name, true
			}
		}
	}
	return "", false
}
