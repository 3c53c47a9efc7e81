package irq

import (
	"errors"
	"fmt"
	"path/filepath"
	"strconv"

	"github.com/safchain/ethtool"
	"golang.org/x/sys/unix"

	"github.com/homenode/homenode/core/plan"
)

// channels asks the driver (ethtool -l). Only this machine's can be asked.
func (d disk) channels(dev string) (now, most int, err error) {
	c, err := d.ask(dev, nil)
	return int(c.CombinedCount), int(c.MaxCombined), err
}

// setChannels changes the queue pairs and nothing else (ethtool -L combined).
func (d disk) setChannels(dev string, n int) error {
	_, err := d.ask(dev, func(c *ethtool.Channels) { c.CombinedCount = uint32(n) })
	return err
}

func (d disk) ask(dev string, change func(*ethtool.Channels)) (ethtool.Channels, error) {
	if filepath.Clean(string(d.Tree)) != "/" {
		return ethtool.Channels{}, unix.EOPNOTSUPP
	}
	e, err := ethtool.NewEthtool()
	if err != nil {
		return ethtool.Channels{}, err
	}
	defer e.Close()
	c, err := e.GetChannels(dev)
	if err != nil || change == nil {
		return c, err
	}
	change(&c)
	return e.SetChannels(dev, c)
}

// setCount changes the number of queue pairs and reads back that it holds.
func (d *Driver) setCount(s setting, value string) error {
	n, err := strconv.Atoi(value)
	if err != nil || n < 1 {
		return fmt.Errorf("%s: %q queues; want a number", s.path, value)
	}
	if err := d.present(s); err != nil { // the name may be another device's by now
		return err
	}
	if err := d.files.setChannels(s.dev, n); err != nil {
		why := ""
		switch {
		case errors.Is(err, unix.EPERM), errors.Is(err, unix.EACCES):
			why = "; it needs CAP_NET_ADMIN"
		case errors.Is(err, unix.EINVAL), errors.Is(err, unix.EBUSY):
			why = "; the driver refuses, as some do while XDP or flow rules use a queue"
		}
		return fmt.Errorf("%s: set %d queues: %w%s", s.path, n, err, why)
	}
	now, err := d.read(s)
	if err != nil {
		return err
	}
	if now != value {
		return fmt.Errorf("%s: it has %s queues after %s were set", s.path, now, value)
	}
	return nil
}

// setAgain gives the interrupts and queues of a device what they had before its driver
// set them anew. What has gone with the queues, and what the kernel keeps as it is,
// stays so.
func (d *Driver) setAgain(had []plan.Setting) error {
	for _, h := range had {
		s, err := parse(h.Kind, h.Path)
		if err != nil {
			return err
		}
		now, err := d.read(s)
		if err == nil && now != h.Value {
			err = d.write(s, h.Value)
		}
		if err != nil && !absent(err) && !errors.Is(err, plan.ErrFixed) {
			return err
		}
	}
	return nil
}

// dependents is the settings that a device's driver makes anew with a number of queues;
// of no other setting does anything depend.
func (d *Driver) dependents(s setting) ([]plan.Setting, error) {
	if s.kind != plan.QueueCount {
		return nil, nil
	}
	var paths []setting
	interrupts, err := d.interrupts(s.pci)
	if err != nil {
		return nil, err
	}
	for _, x := range interrupts {
		p, err := parse(plan.IRQAffinity, fmt.Sprintf("%s/%d", s.pci, x.Number))
		if err != nil {
			return nil, err
		}
		paths = append(paths, p)
	}
	for _, way := range []struct {
		kind   plan.SettingKind
		prefix string
	}{{plan.RPSCPUs, "rx-"}, {plan.XPSCPUs, "tx-"}} {
		names, err := d.queueNames(s.dev, way.prefix)
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			if p, err := parse(way.kind, s.path+"/"+name); err == nil {
				paths = append(paths, p)
			}
		}
	}
	var out []plan.Setting
	for _, p := range paths {
		value, err := d.read(p)
		switch {
		case absent(err):
			continue
		case err != nil:
			return nil, err
		}
		out = append(out, plan.Setting{Kind: p.kind, Path: p.path, Value: value})
	}
	return out, nil
}
