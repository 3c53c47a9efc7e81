package scx

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"io"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
)

// generation is a range of kernels that name what the scheduler calls alike.
type generation struct {
	name   string
	needs  []string // kernel functions by their whole names
	object []byte
}

//go:embed bpf/share.v1.o
var objectV1 []byte

//go:embed bpf/share.v2.o
var objectV2 []byte

//go:embed bpf/sub.v3.o
var objectBelow []byte

// generationBelow is of kernels that let a scheduler run below another one: 7.3 and later.
var generationBelow = generation{"v3", []string{"scx_bpf_sub_grant", "scx_bpf_kick_cid", "scx_bpf_cid_curr",
	"scx_bpf_task_cid", "scx_bpf_dsq_move_to_local___v2"}, objectBelow}

// generations lists the newest first: a kernel may still have older names.
var generations = []generation{
	// 7.2
	{"v2", []string{"scx_bpf_dsq_insert___v2", "scx_bpf_dsq_move_to_local___v2", "scx_bpf_task_set_slice",
		"scx_bpf_cpu_curr"}, objectV2},
	// 6.13
	{"v1", []string{"scx_bpf_dsq_insert", "scx_bpf_dsq_move_to_local", "scx_bpf_cpu_rq"}, objectV1},
}

// choose finds the generation whose functions the kernel has.
func choose(kernel *btf.Spec) (generation, error) {
	var missing string
	for _, g := range generations {
		if missing = lacks(kernel, g.needs); missing == "" {
			return g, nil
		}
	}
	return generation{}, fmt.Errorf("no function %s", missing)
}

// lacks asks by whole names. btf.Spec.AnyTypesByName takes NAME___SUFFIX for a form of NAME, and
// may then find several.
func lacks(kernel *btf.Spec, names []string) string {
	for _, name := range names {
		types, err := kernel.AnyTypesByName(name)
		found := false
		for _, t := range types {
			f, ok := t.(*btf.Func)
			found = found || (ok && f.Name == name)
		}
		if (err != nil && !errors.Is(err, btf.ErrNotFound)) || !found {
			return name
		}
	}
	return ""
}

func (g generation) spec() (*ebpf.CollectionSpec, error) {
	spec, err := ebpf.LoadCollectionSpecFromReader(bytes.NewReader(g.object))
	if err != nil {
		return nil, fmt.Errorf("read scheduler %s: %w", g.name, err)
	}
	return spec, nil
}

// kernelTypes reads the types of a kernel, as in /sys/kernel/btf/vmlinux.
func kernelTypes(r io.ReaderAt) (*btf.Spec, error) { return btf.LoadSpecFromReader(r) }
