package scx

import (
	"bytes"
	"errors"
	"slices"
	"testing"
	"testing/fstest"

	"github.com/cilium/ebpf/btf"
)

// types is a kernel's, with functions of these names.
func types(t *testing.T, functions ...string) []byte {
	t.Helper()
	var b btf.Builder
	proto := &btf.FuncProto{Return: (*btf.Void)(nil)}
	for _, name := range functions {
		if _, err := b.Add(&btf.Func{Name: name, Type: proto, Linkage: btf.StaticFunc}); err != nil {
			t.Fatal(err)
		}
	}
	raw, err := b.Marshal(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func TestProbe(t *testing.T) {
	v1 := types(t, "scx_bpf_dsq_insert", "scx_bpf_dsq_move_to_local", "scx_bpf_cpu_rq")
	// Names with and without a suffix beside one another, as in Linux 7.2.
	v2 := types(t, "scx_bpf_dsq_insert", "scx_bpf_dsq_insert___v2", "scx_bpf_dsq_insert___v2_impl", "scx_bpf_dsq_move_to_local",
		"scx_bpf_dsq_move_to_local___v2", "scx_bpf_dsq_move_to_local___v2_impl", "scx_bpf_task_set_slice", "scx_bpf_cpu_curr")
	v3 := types(t, append(slices.Clone(generations[0].needs), generationBelow.needs...)...)
	const (
		state  = "sys/kernel/sched_ext/state"
		ops    = "sys/kernel/sched_ext/root/ops"
		kernel = "sys/kernel/btf/vmlinux"
		status = "proc/self/status"
		mounts = "proc/self/mounts"
	)
	good := func() map[string]string {
		return map[string]string{state: "disabled\n", kernel: string(v2), status: "Name:\tx\nCapEff:\t000001ffffffffff\n", mounts: "bpf /sys/fs/bpf bpf rw 0 0\n"}
	}
	for _, c := range []struct {
		name       string
		change     func(map[string]string)
		kind       Kind
		why        string
		generation string
	}{
		{"newest", func(map[string]string) {}, Supported, "", "v2"},
		{"older", func(m map[string]string) { m[kernel] = string(v1) }, Supported, "", "v1"},
		{"ours runs", func(m map[string]string) { m[state], m[ops] = "enabled\n", "homenode\n" }, Supported, "", "v2"},
		{"no sched_ext", func(m map[string]string) { delete(m, state) }, NoSchedExt, "the kernel has no sched_ext (it needs Linux 6.13 with CONFIG_SCHED_CLASS_EXT)", ""},
		{"no types", func(m map[string]string) { delete(m, kernel) }, NoBTF, "the kernel does not tell its types: no /sys/kernel/btf/vmlinux (CONFIG_DEBUG_INFO_BTF)", ""},
		{"6.12", func(m map[string]string) { m[kernel] = string(types(t, "scx_bpf_dispatch", "scx_bpf_consume")) }, NoFunctions,
			"the kernel's sched_ext is of a version this homenode does not know (no function scx_bpf_dsq_insert): Linux 6.13 and later is known", ""},
		{"no capability", func(m map[string]string) { m[status] = "CapEff:\t0000000000000000\n" }, NoCapability, "loading a scheduler needs CAP_SYS_ADMIN, or CAP_BPF and CAP_PERFMON", ""},
		{"CAP_BPF alone", func(m map[string]string) { m[status] = "CapEff:\t0000008000000000\n" }, NoCapability, "loading a scheduler needs CAP_SYS_ADMIN, or CAP_BPF and CAP_PERFMON", ""},
		{"CAP_BPF and CAP_PERFMON", func(m map[string]string) { m[status] = "CapEff:\t000000c000000000\n" }, Supported, "", "v2"},
		{"no bpffs", func(m map[string]string) { m[mounts] = "" }, NoBPFFS, "no bpffs at /sys/fs/bpf: mount -t bpf bpf /sys/fs/bpf", ""},
		{"7.3", func(m map[string]string) { m[kernel] = string(v3) }, Supported, "", "v2"},
		{"another", func(m map[string]string) { m[state], m[ops] = "enabled\n", "lavd_1.0.9\n" }, Other, "another sched_ext scheduler is loaded: lavd_1.0.9", "v2"},
	} {
		t.Run(c.name, func(t *testing.T) {
			files := good()
			c.change(files)
			root := fstest.MapFS{}
			for name, text := range files {
				root[name] = &fstest.MapFile{Data: []byte(text)}
			}
			s := probe(root)
			if s.Kind != c.kind || s.OK != (c.kind == Supported) || s.Why != c.why || s.Generation != c.generation {
				t.Errorf("%+v", s)
			}
			if s.Below != (c.name == "7.3") {
				t.Errorf("below another one: %+v", s)
			}
			if s.Running != (files[ops] == "homenode\n") {
				t.Errorf("running: %+v", s)
			}
			var asError Support
			if !errors.As(error(s), &asError) || asError.Kind != c.kind {
				t.Errorf("as an error: %v", asError)
			}
		})
	}
}

// TestWholeNames: a suffix of three underscores and more is part of a name.
func TestWholeNames(t *testing.T) {
	spec, err := kernelTypes(bytes.NewReader(types(t, "a___v2", "a___v2_impl", "b")))
	if err != nil {
		t.Fatal(err)
	}
	for name, there := range map[string]bool{"a": false, "a___v2": true, "b": true, "b___v2": false} {
		if lacks(spec, []string{name}) == "" != there {
			t.Errorf("%s: there %v", name, !there)
		}
	}
}
