package main

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: vmlinux BZIMAGE OUT")
		os.Exit(2)
	}
	if err := extract(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "vmlinux:", err)
		os.Exit(1)
	}
}

func extract(from, to string) error {
	image, err := os.ReadFile(from)
	if err != nil {
		return fmt.Errorf("read kernel: %w", err)
	}
	packed, err := payload(image)
	if err != nil {
		return fmt.Errorf("find payload of %s: %w", from, err)
	}
	elf, err := unpack(packed)
	if err != nil {
		return fmt.Errorf("unpack payload of %s: %w", from, err)
	}
	if !bytes.HasPrefix(elf, []byte("\x7fELF")) {
		return fmt.Errorf("unpack payload of %s: not an ELF file", from)
	}
	if err := os.WriteFile(to+".new", elf, 0o644); err != nil {
		return fmt.Errorf("write kernel: %w", err)
	}
	return os.Rename(to+".new", to)
}

// payload returns the compressed kernel inside a bzImage.
func payload(image []byte) ([]byte, error) {
	if len(image) < 0x250 || string(image[0x202:0x206]) != "HdrS" {
		return nil, errors.New("not a bzImage")
	}
	sectors := int(image[0x1f1])
	if sectors == 0 {
		sectors = 4 // boot.rst: 0 means 4 for old boot loaders' sake
	}
	start := (sectors+1)*512 + int(binary.LittleEndian.Uint32(image[0x248:]))
	end := start + int(binary.LittleEndian.Uint32(image[0x24c:]))
	if start >= end || end > len(image) {
		return nil, fmt.Errorf("payload %d..%d lies outside the %d bytes", start, end, len(image))
	}
	return image[start:end], nil
}

func unpack(b []byte) ([]byte, error) {
	switch {
	case bytes.HasPrefix(b, []byte("\x28\xb5\x2f\xfd")):
		return pipe(b, "zstd", "-dc")
	case bytes.HasPrefix(b, []byte("\xfd7zXZ\x00")):
		return pipe(b, "xz", "-dc", "--single-stream")
	case bytes.HasPrefix(b, []byte("\x1f\x8b")):
		r, err := gzip.NewReader(bytes.NewReader(b))
		if err != nil {
			return nil, err
		}
		r.Multistream(false) // the kernel's size follows the stream
		return io.ReadAll(r)
	}
	return nil, fmt.Errorf("unknown compression % x", b[:min(6, len(b))])
}

// pipe ignores the exit status: the four bytes of the kernel's size that follow
// the stream make zstd complain after it has written everything. The caller
// looks at the result.
func pipe(in []byte, name string, args ...string) ([]byte, error) {
	var out bytes.Buffer
	c := exec.Command(name, args...)
	c.Stdin, c.Stdout = bytes.NewReader(in), &out
	err := c.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return nil, fmt.Errorf("run %s: %w", name, err)
	}
	return out.Bytes(), nil
}
