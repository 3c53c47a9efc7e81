package irq

import (
	"os"
	"path/filepath"
	"strings"
)

// files is the part of the machine's tree that is used here, or a faulty one.
type files interface {
	read(name string) (string, error)
	write(name, text string) error
	list(dir string) ([]string, error) // names, rising
	link(name string) (string, error)
	// channels is how many queue pairs a network device uses and has. Errors are
	// those of the ioctl: EOPNOTSUPP where the driver does not tell.
	channels(dev string) (now, most int, err error)
	setChannels(dev string, n int) error
}

// disk is the tree below a folder.
type disk struct{ root string }

func (d disk) path(name string) string { return filepath.Join(d.root, name) }

func (d disk) read(name string) (string, error) {
	b, err := os.ReadFile(d.path(name))
	return strings.TrimRight(string(b), "\n"), err
}

// write hands the kernel the whole text in one call and creates nothing.
func (d disk) write(name, text string) error {
	f, err := os.OpenFile(d.path(name), os.O_WRONLY|os.O_TRUNC, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	if closing := f.Close(); err == nil {
		err = closing
	}
	return err
}

func (d disk) list(dir string) ([]string, error) {
	entries, err := os.ReadDir(d.path(dir))
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}
	return names, err
}

func (d disk) link(name string) (string, error) { return os.Readlink(d.path(name)) }
