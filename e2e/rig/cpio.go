package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
)

// archived is one program of the initramfs.
type archived struct{ name, from string }

// writeArchive writes the programs as a cpio archive in the "newc" format, the
// one the kernel takes (Documentation/driver-api/early-userspace/buffer-format.rst).
func writeArchive(to string, files []archived) (err error) {
	f, err := os.Create(to)
	if err != nil {
		return fmt.Errorf("write initramfs: %w", err)
	}
	defer func() {
		if e := f.Close(); err == nil && e != nil {
			err = fmt.Errorf("write initramfs: %w", e)
		}
	}()
	w := &cpio{w: bufio.NewWriter(f)}
	for _, d := range []string{"bin", "dev", "proc", "sys", "run", "tmp", "modules", "lib", "lib64"} {
		w.entry(d, 0o40755, 0, 0, nil)
	}
	// Until devtmpfs is mounted, PID 1 has this console to complain on.
	w.entry("dev/console", 0o20600, 5, 1, nil)
	for _, a := range files {
		b, err := os.ReadFile(a.from)
		if err != nil {
			return fmt.Errorf("write initramfs: %w", err)
		}
		w.entry(a.name, 0o100755, 0, 0, b)
	}
	w.entry("TRAILER!!!", 0, 0, 0, nil)
	if w.err == nil {
		w.err = w.w.Flush()
	}
	if w.err != nil {
		return fmt.Errorf("write initramfs: %w", w.err)
	}
	return nil
}

type cpio struct {
	w     *bufio.Writer
	inode int
	err   error
}

// entry writes one member; major and minor are of a device file.
func (c *cpio) entry(name string, mode, major, minor int, data []byte) {
	c.inode++
	head := fmt.Sprintf("070701%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x",
		c.inode, mode, 0, 0, 1, 0, len(data), 0, 0, major, minor, len(name)+1, 0)
	c.padded(head + name + "\x00")
	c.padded(string(data))
}

// padded writes s and fills up to a multiple of 4.
func (c *cpio) padded(s string) {
	for len(s)%4 != 0 {
		s += "\x00"
	}
	if c.err == nil {
		_, c.err = io.WriteString(c.w, s)
	}
}
