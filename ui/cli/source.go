package cli

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/bzip2"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/homenode/homenode/core/measure"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
	"github.com/homenode/homenode/ui/view"
)

// TopologySource is where a host comes from; at most one is set.
type TopologySource struct{ Root, Hwloc, Synthetic, Host string }

// Read gets the host. Trouble with what the user named is bad usage; trouble
// with this machine is not.
func (from TopologySource) Read(e *Env) (*topology.Host, error) {
	switch {
	case from.Root != "":
		defer e.Reading()()
		fsys, err := OpenRoot(e, from.Root)
		if err != nil {
			return nil, Usagef("%w", err)
		}
		h, err := topology.FromSysfs(fsys)
		if err != nil {
			return nil, Usagef("%s: %w", InputName(from.Root), err)
		}
		return h, nil
	case from.Hwloc != "":
		return FromFile(e, from.Hwloc, topology.FromHwlocXML)
	case from.Host != "":
		return FromFile(e, from.Host, topology.FromJSON)
	case from.Synthetic != "":
		h, err := topology.FromSynthetic(from.Synthetic)
		if err != nil {
			return nil, Usagef("%w", err)
		}
		return h, nil
	}
	h, err := topology.FromSysfs(e.Root)
	if err != nil {
		return nil, Forbiddenf("%w", err)
	}
	if e.Probe != nil {
		if d, err := e.Probe(h, e.DefaultState).Cached(measure.Fingerprint(e.Root, h)); err == nil && d != nil {
			h.Measured = d.Measured(h)
		}
	}
	return h, nil
}

// FromFile reads a file that the user named, or standard input for "-".
func FromFile[T any](e *Env, name string, parse func(io.Reader) (T, error)) (T, error) {
	defer e.Reading()()
	var none T
	in := e.Stdin
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return none, Usagef("%w", err)
		}
		defer f.Close()
		in = f
	}
	v, err := parse(in)
	if err != nil {
		return none, Usagef("%s: %w", InputName(name), err)
	}
	return v, nil
}

// OpenRoot opens a folder, or a tar file (plain, gzip or bzip2) of one, which may be
// standard input ("-").
func OpenRoot(e *Env, name string) (fs.FS, error) {
	if name == "-" {
		return openTar(e.Stdin, InputName(name))
	}
	info, err := os.Stat(name)
	if err != nil {
		return nil, fmt.Errorf("--root %s: %w", name, errors.Unwrap(err))
	}
	if info.IsDir() {
		return topology.Plain(os.DirFS(name)), nil
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return openTar(f, name)
}

func openTar(r io.Reader, name string) (_ fs.FS, err error) {
	in := bufio.NewReader(r)
	magic, _ := in.Peek(3)
	var unpacked io.Reader = in
	switch {
	case bytes.HasPrefix(magic, []byte{0x1f, 0x8b}):
		if unpacked, err = gzip.NewReader(in); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	case bytes.HasPrefix(magic, []byte("BZh")):
		unpacked = bzip2.NewReader(in)
	}
	fsys, err := topology.OpenCapture(tar.NewReader(unpacked))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return fsys, nil
}

// WriteFile makes a file whole or not at all. A device or a pipe of that name stays.
func WriteFile(name string, write func(io.Writer) error) (err error) {
	f, err := os.Create(name)
	if err != nil {
		return Usagef("%w", err)
	}
	out := bufio.NewWriter(f)
	if err = write(out); err == nil { // what failed first: the others would say the same
		err = out.Flush()
	}
	if e := f.Close(); err == nil {
		err = e
	}
	if err != nil {
		if there, e := os.Lstat(name); e == nil && there.Mode().IsRegular() {
			os.Remove(name)
		}
	}
	return err
}

// WriteText writes a text into a file.
func WriteText(name, text string) error {
	return WriteFile(name, func(w io.Writer) error { _, err := io.WriteString(w, text); return err })
}

// WriteMarkup writes HTML or SVG into a file, or to standard output (-).
func WriteMarkup(e *Env, name, text string) error {
	if name == "-" {
		_, err := io.WriteString(view.XML(view.Raw(e.Stdout)), text)
		return err
	}
	return WriteText(name, text)
}

// IdleState is a host with nothing placed on it. Memory that is in use and that
// the kernel would not give back counts as taken.
func IdleState(h *topology.Host, reserve, packing string) (plan.State, error) {
	st := plan.State{Host: h, Policy: plan.DefaultPolicy()}
	var err error
	if st.Policy.Reserved, err = topology.ParseCPUSet(reserve); err != nil {
		return st, Usagef("--reserve: %w", err)
	}
	if beyond := st.Policy.Reserved.Minus(h.Online.Union(h.Offline)); !beyond.Empty() {
		return st, Usagef("--reserve: CPUs %v are not on this host, which has %v", beyond, h.Online)
	}
	switch p := plan.Packing(packing); p {
	case "":
	case plan.Adaptive, plan.Pack, plan.Spread:
		st.Policy.Packing = p
	default:
		return st, Usagef("--packing %q; want adaptive, pack or spread", packing)
	}
	for i := range h.Nodes {
		n := &h.Nodes[i]
		if n.Memory <= 0 || n.Free < 0 {
			continue
		}
		used := n.Memory - n.Free - max(0, n.Reclaimable)
		for _, p := range n.HugePages {
			used -= p.Size * topology.KiB(max(0, p.Total))
		}
		if used > 0 {
			st.Unmanaged = append(st.Unmanaged, workload.NodeMemory{Node: n.ID, KiB: used})
		}
	}
	return st, nil
}
