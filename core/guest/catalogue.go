package guest

import (
	"cmp"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"

	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/topology/strict"
	"github.com/homenode/homenode/core/workload"
	"github.com/homenode/homenode/core/workload/specfile"
)

// Catalogue is the flavors that may be ordered, in the order of the file.
type Catalogue []Flavor

// Example is the text of the catalogue that ships: 18 dedicated sizes in four families, and five shared ones.
//
//go:embed flavors.yaml
var Example string

// Find is the flavor of a name.
func (c Catalogue) Find(name string) (Flavor, error) {
	var near []string
	for _, f := range c {
		if f.Name == name {
			return f, nil
		}
		near = append(near, f.Name)
	}
	return Flavor{}, fmt.Errorf("no flavor %q; there are %s", name, strings.Join(near, ", "))
}

// size is memory as people write it.
type size topology.KiB

// UnmarshalText reads a size.
func (s *size) UnmarshalText(text []byte) error {
	n, err := workload.ParseSize(string(text))
	*s = size(n)
	return err
}

// cellText is a cell as the file has it.
type cellText struct {
	VCPUs     VCPUs `yaml:"vcpus"`
	Memory    size  `yaml:"memory"`
	HugePages size  `yaml:"huge_pages"`
}

// flavorText is a flavor as the file has it.
type flavorText struct {
	Name       string             `yaml:"name"`
	Family     string             `yaml:"family"`
	Class      workload.Class     `yaml:"class"`
	Tier       workload.Tier      `yaml:"tier"`
	VCPUs      int                `yaml:"vcpus"`
	Own        VCPUs              `yaml:"dedicated_vcpus"`
	Cells      []cellText         `yaml:"cells"`
	Memory     size               `yaml:"memory"`
	HugePages  size               `yaml:"huge_pages"`
	SMT        workload.SMTPolicy `yaml:"smt"`
	MaxNodes   int                `yaml:"max_nodes"`
	ExactNodes int                `yaml:"exact_nodes"`
	OnlyNodes  topology.NodeSet   `yaml:"only_nodes"`
	Realtime   VCPUs              `yaml:"realtime"`
	Near       specfile.Nears     `yaml:"near"`
	SLO        string             `yaml:"slo"`
	Importance *int               `yaml:"importance"`
	Emulator   Emulator           `yaml:"emulator"`
	IOThreads  *int               `yaml:"iothreads"`
	NICQueues  int                `yaml:"nic_queues"`
	Network    size               `yaml:"network"`
	Peak       size               `yaml:"network_peak"`
	Burst      size               `yaml:"network_burst"`
	Disk       struct {
		IOPS       int64 `yaml:"iops"`
		IOPSPerGiB int64 `yaml:"iops_per_gib"`
		MostIOPS   int64 `yaml:"most_iops"`
		Rate       size  `yaml:"rate"`
		RatePerGiB size  `yaml:"rate_per_gib"`
		MostRate   size  `yaml:"most_rate"`
		BurstIOPS  int64 `yaml:"burst_iops"`
		BurstRate  size  `yaml:"burst_rate"`
		Seconds    int64 `yaml:"burst_seconds"`
	} `yaml:"disk"`
	NVMe int `yaml:"nvme"`
}

func (t *flavorText) flavor() Flavor {
	f := Flavor{
		Name: t.Name, Family: t.Family, Class: t.Class, VCPUs: t.VCPUs,
		Memory: topology.KiB(t.Memory), HugePage: topology.KiB(t.HugePages), SMT: t.SMT, MaxNodes: t.MaxNodes,
		Importance: workload.DefaultImportance, Emulator: t.Emulator, IOThreads: 1, Queues: t.NICQueues,
		Network: topology.KiB(t.Network), NVMe: t.NVMe,
		Disk: DiskLimit{
			t.Disk.IOPS, t.Disk.IOPSPerGiB, t.Disk.MostIOPS,
			topology.KiB(t.Disk.Rate), topology.KiB(t.Disk.RatePerGiB), topology.KiB(t.Disk.MostRate),
			t.Disk.BurstIOPS, topology.KiB(t.Disk.BurstRate), t.Disk.Seconds,
		},
	}
	f.Tier = t.Tier
	if tier, err := workload.ParseTier(string(t.Tier)); err == nil {
		f.Tier = tier
	}
	if f.Class == workload.Batch && f.Tier == "" {
		f.Class, f.Tier = workload.Shared, workload.BatchTier
	}
	f.Near = t.Near
	f.SLO = strings.Join(strings.Fields(t.SLO), "")
	f.ExactNodes = t.ExactNodes
	f.OnlyNodes = t.OnlyNodes
	f.Realtime = t.Realtime
	f.NetworkBurst = Burst{topology.KiB(t.Peak), topology.KiB(t.Burst)}
	f.Own = t.Own
	for _, c := range t.Cells {
		f.Cells = append(f.Cells, Cell{c.VCPUs, topology.KiB(c.Memory), topology.KiB(c.HugePages)})
	}
	f.Class = cmp.Or(f.Class, workload.Shared)
	f.SMT = cmp.Or(f.SMT, workload.SMTPrefer)
	f.Emulator = cmp.Or(f.Emulator, Share)
	if t.Importance != nil {
		f.Importance = *t.Importance
	}
	if t.IOThreads != nil {
		f.IOThreads = *t.IOThreads
	}
	f.Queues = cmp.Or(f.Queues, max(1, min(f.VCPUs, MaxQueues)))
	return f
}

// maxCatalogue bounds a catalogue: a thousand flavors take 300 KiB.
const maxCatalogue = 4 << 20

// ReadCatalogue reads a list of flavors in YAML; docs/vm.md has the keys. name
// is for errors, which are one line.
func ReadCatalogue(r io.Reader, name string) (Catalogue, error) {
	text, err := io.ReadAll(io.LimitReader(r, maxCatalogue+1))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if len(text) > maxCatalogue {
		return nil, fmt.Errorf("%s: larger than 4 MiB; this is no catalogue", name)
	}
	var file struct {
		Flavors []flavorText `yaml:"flavors"`
	}
	if _, err := strict.YAML(text, &file, strict.Wants{reflect.TypeFor[size](): "a size with a unit, such as 16GiB",
		reflect.TypeFor[specfile.Nears](): specfile.NearsWant, reflect.TypeFor[VCPUs](): "a list such as 0-1,4",
		reflect.TypeFor[topology.NodeSet](): "a list such as 0-1,4"}); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if len(file.Flavors) == 0 {
		return nil, fmt.Errorf("%s: no flavor in it", name)
	}
	known := map[string]bool{}
	c := make(Catalogue, 0, len(file.Flavors))
	for i := range file.Flavors {
		f := file.Flavors[i].flavor()
		err := f.validate()
		if known[f.Name] {
			err = errors.New("name: there is one of that name above")
		}
		if err != nil {
			return nil, fmt.Errorf("%s: flavor %d (%q): %w", name, i+1, f.Name, err)
		}
		known[f.Name] = true
		c = append(c, f)
	}
	return c, nil
}
