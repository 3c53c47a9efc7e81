package proc

import (
	"bufio"
	"io"
)

// LongestLine is the size of a reader for EachLine: a path of PATH_MAX, every byte escaped
// to four, fits.
const LongestLine = 64 << 10

// EachLine calls each with every line, valid during the call, until it returns an error.
// A line that the reader has no room for is left out.
func EachLine(r *bufio.Reader, each func(line []byte) error) error {
	for skip := false; ; {
		line, err := r.ReadSlice('\n')
		switch {
		case err == bufio.ErrBufferFull:
			skip = true // and what follows, to the end of the line
			continue
		case err != nil && err != io.EOF:
			return err
		}
		if !skip && len(line) > 0 {
			if err := each(line); err != nil {
				return err
			}
		}
		if skip = false; err == io.EOF {
			return nil
		}
	}
}
