package machine

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/homenode/homenode/core/doctor"
	"github.com/homenode/homenode/core/hostprep"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/ui/cli"
	"github.com/homenode/homenode/ui/view"
)

func GatherCommand(e *cli.Env) *cobra.Command {
	return &cobra.Command{
		Use:   "gather FILE",
		Short: "Capture this machine's topology, for use on another machine",
		Long: `Capture this machine's topology: the few files of /sys and /proc that
"homenode topology", "homenode doctor" and "homenode host report" read. FILE is
a tar.gz, a folder when it ends in /, or - for standard output; those commands
read all of them with --root FILE. As root, the firmware's tables SRAT, SLIT and
HMAT are in it too.

Not in it: serial numbers, MAC and IP addresses, UUIDs, host names, DMI and
other firmware strings, processes, mounts, virtual network devices, words of the
kernel command line that do not concern NUMA, CPUs or memory. Network and RDMA
devices whose names were given by people are numbered instead. Everything except
the tables is text; check it before you share it.`,
		Example: "  homenode gather machine.tar.gz\n  homenode topology --root machine.tar.gz\n  homenode gather " +
			"machine/",
		Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			leaves, err := captured(e.Root)
			if err != nil {
				return cli.Forbiddenf("%w", err)
			}
			name := args[0]
			switch {
			case name == "-":
				return writeCapture(view.Raw(e.Stdout), leaves)
			case strings.HasSuffix(name, "/"):
				err = writeFolder(name, leaves)
			default:
				err = cli.WriteFile(name, func(w io.Writer) error { return writeCapture(w, leaves) })
			}
			if err == nil {
				fmt.Fprintf(e.Stderr, "%s: %s; see `homenode topology --root %s`\n", name,
					words.Count(len(leaves), "file"), name)
			}
			return err
		},
	}
}

// captured is all that topology, doctor and host report read, in the order of names.
func captured(fsys fs.FS) ([]topology.Leaf, error) {
	leaves, err := topology.Capture(fsys)
	if err != nil {
		return nil, err
	}
	leaves = append(leaves, doctor.Capture(fsys)...)
	leaves = append(leaves, hostprep.Capture(fsys)...)
	slices.SortFunc(leaves, func(a, b topology.Leaf) int { return strings.Compare(a.Name, b.Name) })
	return leaves, nil
}

// writeCapture writes a tar.gz that depends on nothing but the leaves: no
// times, owners or names of this machine.
func writeCapture(w io.Writer, leaves []topology.Leaf) error {
	zip := gzip.NewWriter(w)
	out := tar.NewWriter(zip)
	for _, l := range leaves {
		head := &tar.Header{Typeflag: tar.TypeReg, Name: l.Name, Mode: 0o444, Size: int64(len(l.Data)),
			Format: tar.FormatUSTAR}
		if l.Link != "" {
			head = &tar.Header{Typeflag: tar.TypeSymlink, Name: l.Name, Linkname: l.Link, Mode: 0o777,
				Format: tar.FormatUSTAR}
		}
		if err := out.WriteHeader(head); err != nil {
			return err
		}
		if _, err := out.Write(l.Data); err != nil {
			return err
		}
	}
	return errors.Join(out.Close(), zip.Close())
}

// writeFolder makes a folder that must not be there yet, so that nothing of an
// older capture stays between.
func writeFolder(name string, leaves []topology.Leaf) error {
	if err := os.Mkdir(name, 0o755); err != nil {
		return cli.Usagef("%w", err)
	}
	for _, l := range leaves {
		file := filepath.Join(name, filepath.FromSlash(l.Name))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return err
		}
		if l.Link != "" {
			if err := os.Symlink(l.Link, file); err != nil {
				return err
			}
			continue
		}
		if err := os.WriteFile(file, l.Data, 0o644); err != nil {
			return err
		}
	}
	return nil
}
