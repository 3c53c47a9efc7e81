package specfile

import (
	"errors"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"

	"github.com/homenode/homenode/core/workload"
)

// Nears is what something is to be near to, as configuration and flavors have it: a device by its
// name or PCI address, or {device: NAME}, {gpu: auto}, {process: NAME} or {service: NAME} with
// policy: required, socket or preferred, or a list of them.
type Nears []workload.Near

// NearsWant is what to write, for errors (strict.Wants).
const NearsWant = "a device, or {device: NAME}, {gpu: auto}, {process: NAME} or {service: NAME} with policy: " +
	"required, socket or preferred, or a list of them"

// UnmarshalYAML reads one or a list.
func (n *Nears) UnmarshalYAML(node ast.Node) error {
	entries := []ast.Node{node}
	if list, ok := node.(*ast.SequenceNode); ok {
		entries = list.Values
	}
	*n = Nears{}
	for _, entry := range entries {
		var x struct {
			Device  string `yaml:"device"`
			GPU     string `yaml:"gpu"`
			Process string `yaml:"process"`
			Service string `yaml:"service"`
			Policy  string `yaml:"policy"`
		}
		var into any = &x.Device
		if _, ok := entry.(ast.MapNode); ok {
			into = &x
		}
		if err := yaml.NodeToValue(entry, into, yaml.Strict()); err != nil {
			return err
		}
		near, err := nearOf(x.Device, x.GPU, x.Process, x.Service, x.Policy)
		if err != nil {
			return err
		}
		*n = append(*n, near)
	}
	if len(*n) > workload.MostNear {
		return errors.New("too many")
	}
	return nil
}

// nearOf reads one entry: gpu stands for itself, or for a device of that name.
func nearOf(device, gpu, process, service, policy string) (workload.Near, error) {
	if gpu == "" {
		return workload.NewNear(device, process, service, policy)
	}
	if device != "" || process != "" || service != "" {
		return workload.Near{}, errors.New("want one of device, gpu, process and service, such as gpu: auto")
	}
	return workload.NearGPU(gpu, policy)
}
