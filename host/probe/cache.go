package probe

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/renameio/v2"

	"github.com/homenode/homenode/core/measure"
)

// Cache keeps measurements in a folder, one file a fingerprint: a machine whose
// DIMMs, BIOS or kernel changed is another machine until it is measured again.
type Cache struct{ Dir string }

func (c Cache) file(fingerprint string) string {
	name := strings.Map(func(r rune) rune {
		if (r >= 'a' && r <= 'z') || (r >= '0' && r <= '9') {
			return r
		}
		return '-'
	}, fingerprint)
	return filepath.Join(c.Dir, name+".json")
}

// Cached is the measurement kept for a fingerprint, nil when there is none.
func (c Cache) Cached(fingerprint string) (*measure.Document, error) {
	f, err := os.Open(c.file(fingerprint))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the kept measurement: %w", err)
	}
	defer f.Close()
	d, err := measure.Read(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.Name(), err)
	}
	if d.Host.Fingerprint != fingerprint {
		return nil, fmt.Errorf("%s is of another machine", f.Name())
	}
	return d, nil
}

// Changed is when the measurement kept for a fingerprint was written; zero when
// there is none.
func (c Cache) Changed(fingerprint string) time.Time {
	info, err := os.Stat(c.file(fingerprint))
	if err != nil {
		return time.Time{}
	}
	return info.ModTime()
}

// Keep keeps a measurement, whole or not at all, and says where.
func (c Cache) Keep(d *measure.Document) (string, error) {
	if err := os.MkdirAll(c.Dir, 0o755); err != nil {
		return "", fmt.Errorf("keep the measurement: %w", err)
	}
	name := c.file(d.Host.Fingerprint)
	var text bytes.Buffer
	err := d.Write(&text)
	if err == nil {
		// Other users may go by it: it holds nothing but the machine.
		mode := renameio.WithStaticPermissions(0o644)
		err = renameio.WriteFile(name, text.Bytes(), 0o644, renameio.WithTempDir(c.Dir), mode)
	}
	if err != nil {
		return "", fmt.Errorf("keep the measurement: %w", err)
	}
	return name, nil
}
