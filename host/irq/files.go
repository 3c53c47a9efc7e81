package irq

import "github.com/homenode/homenode/host/internal/kernfile"

// files is the part of the machine's tree that is used here, or a faulty one.
type files interface {
	Read(name string) (string, error)
	Write(name, text string) error
	List(dir string) ([]string, error) // names, rising
	Link(name string) (string, error)
	// channels is how many queue pairs a network device uses and has. Errors are
	// those of the ioctl: EOPNOTSUPP where the driver does not tell.
	channels(dev string) (now, most int, err error)
	setChannels(dev string, n int) error
}

// disk is the machine's own tree, or one below a folder.
type disk struct{ kernfile.Tree }
