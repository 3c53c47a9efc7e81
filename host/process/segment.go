package process

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/host/internal/numa"
)

// SegmentOptions name a segment of shared memory, as numactl(8) does: by a key file, an ID, or a file in
// tmpfs or hugetlbfs.
type SegmentOptions struct {
	KeyFile string // its key is that of ftok(3); it is made where it is not there
	ID      int    // of the segment; -1 for none
	File    string
	Offset  int64
	Length  int64 // 0: all there is
	Huge    bool
	Mode    uint32 // of what is made; 0 is 0600
}

// Segment is a range of shared memory in this process.
type Segment struct {
	mem  []byte
	done func() error
}

// OpenSegment opens a segment, or makes it where a length says how long.
func OpenSegment(o SegmentOptions) (*Segment, error) {
	o.Mode = cmp.Or(o.Mode, 0o600)
	if o.Offset%int64(os.Getpagesize()) != 0 {
		return nil, fmt.Errorf("offset %d: want a multiple of a page, %d bytes", o.Offset, os.Getpagesize())
	}
	if o.File != "" {
		return openFile(o)
	}
	id := o.ID
	if o.KeyFile != "" {
		key, err := keyOf(o.KeyFile, o.Mode)
		if err != nil {
			return nil, err
		}
		if id, err = unix.SysvShmGet(key, 0, 0); errors.Is(err, unix.ENOENT) {
			if o.Length <= 0 {
				return nil, fmt.Errorf("%s has no segment yet: say with --length how long it is to be", o.KeyFile)
			}
			flags := unix.IPC_CREAT | int(o.Mode)
			if o.Huge {
				const shmHugeTLB = 0o4000 // SHM_HUGETLB, shmget(2)
				flags |= shmHugeTLB
			}
			id, err = unix.SysvShmGet(key, int(o.Offset+o.Length), flags)
		}
		if err != nil {
			return nil, fmt.Errorf("segment of %s: %w", o.KeyFile, err)
		}
	}
	mem, err := unix.SysvShmAttach(id, 0, 0)
	if err != nil {
		return nil, fmt.Errorf("segment %d: %w", id, err)
	}
	return within(mem, o, func() error { return unix.SysvShmDetach(mem) })
}

// keyOf is the key of a file as ftok(3) makes it with project 0, as numactl does.
func keyOf(file string, mode uint32) (int, error) {
	f, err := os.OpenFile(file, os.O_RDONLY|os.O_CREATE, os.FileMode(mode))
	if err != nil {
		return 0, err
	}
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return 0, fmt.Errorf("%s: %w", file, err)
	}
	return int(st.Ino&0xffff | (uint64(st.Dev)&0xff)<<16), nil
}

func openFile(o SegmentOptions) (*Segment, error) {
	if err := inMemory(o.File,
		func(at *unix.Statfs_t) error { return unix.Statfs(filepath.Dir(o.File), at) }); err != nil {
		if _, missing := os.Lstat(o.File); missing != nil { // else it may be a link to a file in tmpfs
			return nil, err
		}
	}
	f, err := os.OpenFile(o.File, os.O_RDWR|os.O_CREATE, os.FileMode(o.Mode))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if err := inMemory(o.File, func(at *unix.Statfs_t) error { return unix.Fstatfs(int(f.Fd()), at) }); err != nil {
		return nil, err
	}
	size := info.Size()
	if want := o.Offset + o.Length; want > size {
		if err := f.Truncate(want); err != nil {
			return nil, fmt.Errorf("make %s %d bytes long: %w", o.File, want, err)
		}
		size = want
	}
	if size == 0 {
		return nil, fmt.Errorf("%s is empty: say with --length how long it is to be", o.File)
	}
	mem, err := unix.Mmap(int(f.Fd()), 0, int(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map %s: %w", o.File, err)
	}
	return within(mem, o, func() error { return unix.Munmap(mem) })
}

// inMemory refuses a file whose file system has no memory policies.
func inMemory(file string, statfs func(*unix.Statfs_t) error) error {
	var at unix.Statfs_t
	if err := statfs(&at); err == nil && at.Type != unix.TMPFS_MAGIC && at.Type != unix.HUGETLBFS_MAGIC {
		return fmt.Errorf("%s is neither in tmpfs nor in hugetlbfs: the kernel keeps no memory policy for it", file)
	}
	return nil
}

// within is the part of mem that is asked for.
func within(mem []byte, o SegmentOptions, done func() error) (*Segment, error) {
	if o.Offset < 0 || o.Offset > int64(len(mem)) || o.Length > int64(len(mem))-o.Offset {
		done()
		return nil, fmt.Errorf("offset %d and length %d reach beyond its end at %d bytes", o.Offset, o.Length, len(mem))
	}
	part := mem[o.Offset:]
	if o.Length > 0 {
		part = part[:o.Length]
	}
	return &Segment{part, done}, nil
}

// Close leaves the segment as it is.
func (s *Segment) Close() error { return s.done() }

// SetPolicy sets the memory policy of the range. strict makes it an error that pages lie elsewhere already.
func (s *Segment) SetPolicy(policy MemPolicy, nodes topology.NodeSet, strict bool) error {
	mode, ok := toldModes[policy]
	if !ok {
		return fmt.Errorf("memory policy %q is not known", policy)
	}
	flags := 0
	if strict {
		flags = numa.Strict
	}
	err := numa.Kernel{}.Bind(s.mem, mode, nodes, flags)
	switch {
	case errors.Is(err, unix.EIO):
		return errors.New("some of its pages lie on other nodes already (--strict)")
	case errors.Is(err, unix.ENOSYS):
		return plan.Unsupported("memory policies", "a kernel with CONFIG_NUMA")
	}
	return err
}

// Touch has the kernel allocate every page of the range, by its policy.
func (s *Segment) Touch() {
	var sum byte
	for i := 0; i < len(s.mem); i += os.Getpagesize() {
		sum += s.mem[i]
	}
	runtime.KeepAlive(sum) // so that reading is not left out
}

// PageRange is pages of a segment that have one policy and lie on one node.
type PageRange struct {
	From, To int // pages of the range, from 0
	Policy   string
	Nodes    topology.NodeSet // of the policy
	Node     int              // where they lie; negative: not allocated, or not asked
}

// Pages is the policies of a segment's pages and, with lie, where they lie.
func (s *Segment) Pages(lie bool) (out []PageRange, err error) {
	size := os.Getpagesize()
	for at := 0; at < len(s.mem); at += size {
		mode, nodes, err := numa.Kernel{}.PolicyAt(s.mem[at:])
		if err != nil {
			return out, err
		}
		r := PageRange{at / size, at / size, mode.String(), nodes, -1}
		if lie {
			status := []int32{-1}
			if err := (numa.Kernel{}).PageNodes(0, []uintptr{uintptr(unsafe.Pointer(&s.mem[at]))}, status); err != nil {
				return out, err
			}
			r.Node = max(-1, int(status[0]))
		}
		if n := len(out); n > 0 && out[n-1].Policy == r.Policy && out[n-1].Nodes.Equal(r.Nodes) &&
			out[n-1].Node == r.Node {
			out[n-1].To = r.To
			continue
		}
		out = append(out, r)
	}
	return out, nil
}
