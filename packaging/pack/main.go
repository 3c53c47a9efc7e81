// Command pack makes what a release gives out from installed trees, one of each
// architecture, as `make install DESTDIR=STAGE/ARCH PREFIX=/usr` lays them out: deb, rpm,
// an archive, the binary by itself, container images in OCI layout, the Helm chart, the list of what is
// inside (CycloneDX), the notes and the sums. The same trees give the same bytes, on any machine and at any time.
package main

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// release is what is common to all that is made.
type release struct {
	version string
	time    time.Time // of the commit
	source  string    // root folder of the source
	out     string
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "pack:", err)
		os.Exit(1)
	}
}

func run() error {
	var r release
	stage := flag.String("stage", "", "`folder` with a tree for each architecture")
	epoch := flag.Int64("epoch", 0, "time of everything in `seconds` since 1970, as SOURCE_DATE_EPOCH")
	flag.StringVar(&r.version, "version", "", "the version, as dpkg and rpm write it")
	flag.StringVar(&r.source, "source", "..", "root `folder` of the source")
	flag.StringVar(&r.out, "out", "", "`folder` to write to")
	plain := flag.String("manifests", "", "write the plain manifests of the chart to this `file`, and nothing else")
	kube := flag.Bool("kube", false, "the driver for Kubernetes is on the stage: its image, too")
	arch := flag.String("arch", strings.Join(architectures, " "), "`architectures` on the stage")
	flag.Parse()
	if architectures = strings.Fields(*arch); len(architectures) == 0 {
		return errors.New("-arch names no architecture")
	}
	r.time = time.Unix(*epoch, 0).UTC()
	if *plain != "" {
		text, err := r.manifests()
		if err != nil {
			return err
		}
		return os.WriteFile(*plain, []byte(text), 0o644)
	}
	trees, drivers := map[string][]file{}, map[string][]file{}
	for _, arch := range architectures {
		tree, err := r.tree(filepath.Join(*stage, arch))
		if err != nil {
			return err
		}
		trees[arch] = tree
		if *kube {
			if drivers[arch], err = kubeFiles(*stage, arch); err != nil {
				return err
			}
		}
		if err := r.archive(arch, tree); err != nil {
			return fmt.Errorf("archive for %s: %w", arch, err)
		}
		if err := r.binary(arch, tree); err != nil {
			return fmt.Errorf("binary for %s: %w", arch, err)
		}
		if err := r.packages(arch, tree); err != nil {
			return fmt.Errorf("packages for %s: %w", arch, err)
		}
	}
	if err := r.images(trees, drivers); err != nil {
		return fmt.Errorf("container images: %w", err)
	}
	if err := r.kubernetes(); err != nil {
		return fmt.Errorf("chart: %w", err)
	}
	if err := r.inside(trees[architectures[0]]); err != nil {
		return fmt.Errorf("bill of materials: %w", err)
	}
	if err := r.notes(); err != nil {
		return fmt.Errorf("notes: %w", err)
	}
	return r.sums()
}

// architectures that releases are made for, as Go and Debian write them.
var architectures = []string{"amd64", "arm64"}

// file is one file of an installed tree.
type file struct {
	path string // absolute, /usr/bin/homenode
	mode fs.FileMode
	data []byte
}

// program is where the binary is.
const program = "/usr/bin/homenode"

// tree reads an installed tree. Modes do not depend on the umask of who installed it.
func (r *release) tree(dir string) ([]file, error) {
	var out []file
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		f := file{"/" + strings.TrimPrefix(strings.TrimPrefix(name, dir), "/"), 0o644, data}
		if f.path == program {
			f.mode = 0o755
		}
		out = append(out, f)
		return nil
	})
	slices.SortFunc(out, func(a, b file) int { return cmp.Compare(a.path, b.path) })
	if err == nil && !slices.ContainsFunc(out, func(f file) bool { return f.path == program }) {
		err = fmt.Errorf("%s: no %s in it", dir, program)
	}
	return out, err
}

// named is the file of that path.
func named(tree []file, p string) file {
	for _, f := range tree {
		if f.path == p {
			return f
		}
	}
	return file{}
}

// zipped packs with gzip, without name and time.
func zipped(data []byte) ([]byte, error) {
	var b bytes.Buffer
	w, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(data); err != nil {
		return nil, err
	}
	err = w.Close()
	return b.Bytes(), err
}

// folders are all folders above the paths, parents first.
func folders(paths []string) []string {
	seen := map[string]bool{}
	for _, p := range paths {
		for d := path.Dir(p); d != "." && d != "/"; d = path.Dir(d) {
			seen[d] = true
		}
	}
	var out []string
	for d := range seen {
		out = append(out, d)
	}
	slices.Sort(out)
	return out
}
