package cli

import (
	"errors"
	"io"
	"io/fs"
	"syscall"
)

// checkedOutput is standard output that remembers the first write that failed, so that
// no command has to look at each line it prints.
type checkedOutput struct {
	io.Writer
	err error // without the path; nil when the reader just stopped reading
}

func (o *checkedOutput) Write(b []byte) (int, error) {
	n, err := o.Writer.Write(b)
	if err != nil && o.err == nil && !errors.Is(err, syscall.EPIPE) {
		o.err = err
		if path := (*fs.PathError)(nil); errors.As(err, &path) {
			o.err = path.Err
		}
	}
	return n, err
}
