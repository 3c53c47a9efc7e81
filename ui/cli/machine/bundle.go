package machine

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"

	"github.com/homenode/homenode/core/doctor"
	"github.com/homenode/homenode/core/measure"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/ui/cli"
	"github.com/homenode/homenode/ui/view"
)

// Names inside a bundle, beside sys/ and proc/.
const (
	bundleDocument = "homenode/measurement.json"
	bundleText     = "homenode/doctor.txt"
	bundleVersion  = "homenode/version"
)

// writeBundle writes the captured machine, what was measured and what doctor
// says into one tar.gz. `--root` and `topology --root` read the first, `--replay`
// the second.
func writeBundle(e *cli.Env, name, root string, d *measure.Document) error {
	fsys := e.Root
	if root != "" {
		var err error
		if fsys, err = cli.OpenRoot(e, root); err != nil {
			return cli.Usagef("%w", err)
		}
	}
	leaves, err := captured(fsys)
	if err != nil {
		return cli.Forbiddenf("%w", err)
	}
	clean := doctor.Anonymous(d)
	clean.Diagnosis = new(doctor.Diagnose(clean, doctor.DefaultLimits))
	var document, text bytes.Buffer
	if err := errors.Join(clean.Write(&document), printDiagnosis(&text, view.Paint{Width: 96}, clean,
		true)); err != nil {
		return err
	}
	leaves = append(leaves,
		topology.Leaf{Name: bundleDocument, Data: document.Bytes()},
		topology.Leaf{Name: bundleText, Data: text.Bytes()},
		topology.Leaf{Name: bundleVersion, Data: []byte(e.Version + "\n")})
	if name == "-" {
		return writeCapture(view.Raw(e.Stdout), leaves)
	}
	if err := cli.WriteFile(name, func(w io.Writer) error { return writeCapture(w, leaves) }); err != nil {
		return err
	}
	fmt.Fprintf(e.Stderr, "%s: %s; check it before you share it; `homenode doctor --replay %s` reads it\n", name,
		words.Count(len(leaves), "file"), name)
	return nil
}

// unbundle finds the document in a bundle; other input comes back as it is.
func unbundle(in io.Reader) (io.Reader, error) {
	head := make([]byte, 2)
	n, err := io.ReadFull(in, head)
	whole := io.MultiReader(bytes.NewReader(head[:n]), in)
	if err != nil || head[0] != 0x1f || head[1] != 0x8b { // RFC 1952
		return whole, nil
	}
	zip, err := gzip.NewReader(whole)
	if err != nil {
		return nil, err
	}
	for files := tar.NewReader(zip); ; {
		f, err := files.Next()
		if errors.Is(err, io.EOF) {
			return nil,
				fmt.Errorf("there is no %s in it; give what `homenode doctor --bundle` wrote, or read it with --root",
					bundleDocument)
		}
		if err != nil {
			return nil, err
		}
		if f.Name == bundleDocument {
			return files, nil
		}
	}
}
