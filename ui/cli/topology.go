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

	"github.com/spf13/cobra"

	"github.com/homenode/homenode/core/measure"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/ui/view"
)

// topologySource is where a host comes from; at most one is set.
type topologySource struct{ root, hwloc, synthetic, host string }

func topologyCommand(e *Env) *cobra.Command {
	var from topologySource
	var asJSON bool
	var svg string
	c := &cobra.Command{
		Use:   "topology",
		Short: "Show the machine: NUMA nodes, CPUs, caches, memory, devices",
		Long: `Shows the machine: packages, NUMA nodes, last-level caches and CPUs, memory and
huge pages, distances between nodes, devices, and irregularities. The default
source is this machine.

0-7+32-39 means that CPU 0 shares a core with CPU 32, 1 with 33, and so on;
0-36:1/4 is every fourth CPU. In a memory bar █ is in use, ▒ is cache that the
kernel can give back, ░ is free.`,
		Example: `  homenode topology
  homenode topology --synthetic "package:2 node:2 core:8 pu:2" --svg host.svg
  homenode gather host.tar.gz && homenode topology --root host.tar.gz
  homenode topology --json > host.json && homenode topology --host host.json
  lstopo --of xml - | homenode topology --hwloc -`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			h, err := from.read(e)
			if err != nil {
				return err
			}
			switch {
			case asJSON:
				return h.WriteJSON(view.JSON(view.Raw(e.Stdout)))
			case svg == "-":
				return view.TopologySVG(view.XML(view.Raw(e.Stdout)), h)
			case svg != "":
				return writeFile(svg, func(w io.Writer) error { return view.TopologySVG(w, h) })
			}
			out := bufio.NewWriter(e.Stdout)
			view.TopologyText(out, e.paint(), h)
			return out.Flush()
		},
	}
	f := c.Flags()
	f.StringVar(&from.root, "root", "", "read sys/ and proc/ under `DIR`, or in a tar file that gather wrote (- is standard input)")
	f.StringVar(&from.hwloc, "hwloc", "", "read `FILE`, written by lstopo --of xml (- is standard input)")
	f.StringVar(&from.synthetic, "synthetic", "", "make up a `HOST`, such as \"package:2 node:2 core:8 pu:2\"")
	f.StringVar(&from.host, "host", "", "read `JSONFILE`, written by topology --json (- is standard input)")
	f.BoolVar(&asJSON, "json", false, "print JSON (schema homenode-host/1)")
	f.StringVar(&svg, "svg", "", "draw into `FILE` (- is standard output)")
	c.MarkFlagsMutuallyExclusive("root", "hwloc", "synthetic", "host")
	c.MarkFlagsMutuallyExclusive("json", "svg")
	return c
}

// read gets the host. Trouble with what the user named is bad usage; trouble
// with this machine is not.
func (from topologySource) read(e *Env) (*topology.Host, error) {
	switch {
	case from.root != "":
		defer e.reading()()
		fsys, err := openRoot(e, from.root)
		if err != nil {
			return nil, usageErrorf("%w", err)
		}
		h, err := topology.FromSysfs(fsys)
		if err != nil {
			return nil, usageErrorf("%s: %w", inputName(from.root), err)
		}
		return h, nil
	case from.hwloc != "":
		return fromFile(e, from.hwloc, topology.FromHwlocXML)
	case from.host != "":
		return fromFile(e, from.host, topology.FromJSON)
	case from.synthetic != "":
		h, err := topology.FromSynthetic(from.synthetic)
		if err != nil {
			return nil, usageErrorf("%w", err)
		}
		return h, nil
	}
	h, err := topology.FromSysfs(e.Root)
	if err != nil {
		return nil, forbiddenErrorf("%w", err)
	}
	if e.Probe != nil {
		if d, err := e.Probe(h, e.DefaultState).Cached(measure.Fingerprint(e.Root, h)); err == nil && d != nil {
			h.Measured = d.Measured(h)
		}
	}
	return h, nil
}

// fromFile reads a file that the user named, or standard input for "-".
func fromFile[T any](e *Env, name string, parse func(io.Reader) (T, error)) (T, error) {
	defer e.reading()()
	var none T
	in := e.Stdin
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return none, usageErrorf("%w", err)
		}
		defer f.Close()
		in = f
	}
	v, err := parse(in)
	if err != nil {
		return none, usageErrorf("%s: %w", inputName(name), err)
	}
	return v, nil
}

// openRoot opens a folder, or a tar file (plain, gzip or bzip2) of one, which may be
// standard input ("-").
func openRoot(e *Env, name string) (fs.FS, error) {
	if name == "-" {
		return openTar(e.Stdin, inputName(name))
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

// writeFile makes a file whole or not at all. A device or a pipe of that name stays.
func writeFile(name string, write func(io.Writer) error) (err error) {
	f, err := os.Create(name)
	if err != nil {
		return usageErrorf("%w", err)
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

// writeText writes a text into a file.
func writeText(name, text string) error {
	return writeFile(name, func(w io.Writer) error { _, err := io.WriteString(w, text); return err })
}

// writeMarkup writes HTML or SVG into a file, or to standard output (-).
func writeMarkup(e *Env, name, text string) error {
	if name == "-" {
		_, err := io.WriteString(view.XML(view.Raw(e.Stdout)), text)
		return err
	}
	return writeText(name, text)
}
