package topology

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strconv"
	"strings"
)

// maxLeaf bounds one file of /sys or /proc. The largest that is read is
// /proc/mounts, which on hosts with thousands of containers reaches some
// hundred KiB; a CPU mask of 8,192 CPUs needs 2,304 bytes.
const maxLeaf = 1 << 20

// maxEntries bounds one directory. The PCI bus of a host with SR-IOV has some
// thousand functions.
const maxEntries = 1 << 14

// tree reads the leaves of one root that holds sys/ and proc/.
type tree struct {
	fsys  fs.FS
	buf   []byte
	notes []Note
}

func (t *tree) note(subject, format string, args ...any) {
	t.notes = append(t.notes, Note{subject, fmt.Sprintf(format, args...)})
}

// read returns the text of a leaf without surrounding white space and NUL
// bytes, and whether the leaf is there. A leaf that does not exist is no error.
func (t *tree) read(name string) (text string, ok bool, err error) {
	f, err := t.fsys.Open(name)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return "", false, nil
		}
		return "", false, err
	}
	defer f.Close()
	if t.buf == nil {
		t.buf = make([]byte, 1<<14)
	}
	n := 0
	for {
		m, err := f.Read(t.buf[n:])
		n += m
		if err == io.EOF {
			break
		}
		if err != nil {
			// Attributes of hardware that went away, or that the driver does not
			// support, open but do not read.
			return "", false, fmt.Errorf("read %s: %w", name, err)
		}
		if n == len(t.buf) {
			if n >= maxLeaf {
				return "", false, fmt.Errorf("read %s: larger than %d bytes", name, maxLeaf)
			}
			t.buf = append(t.buf, make([]byte, n)...)
		}
	}
	return strings.Trim(string(t.buf[:n]), " \t\r\n\x00"), true, nil
}

// optional is read for leaves whose loss costs a fact and not the host: an
// unreadable one becomes a note.
func (t *tree) optional(subject, name string) (string, bool) {
	text, ok, err := t.read(name)
	if err != nil {
		t.note(subject, "%s cannot be read: %v", name, rootCause(err))
	}
	return text, ok
}

func rootCause(err error) error {
	for u := errors.Unwrap(err); u != nil; u = errors.Unwrap(err) {
		err = u
	}
	return err
}

// names lists a directory; one that does not exist is empty.
func (t *tree) names(dir string) ([]string, error) {
	f, err := t.fsys.Open(dir)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		}
		return nil, err
	}
	defer f.Close()
	d, ok := f.(fs.ReadDirFile)
	if !ok {
		return nil, fmt.Errorf("read %s: not a directory", dir)
	}
	entries, err := d.ReadDir(maxEntries)
	if err != nil && err != io.EOF {
		return nil, fmt.Errorf("read %s: %w", dir, err)
	}
	out := make([]string, 0, len(entries))
	for _, e := range entries {
		out = append(out, e.Name())
	}
	slices.Sort(out)
	return out, nil
}

// numbered lists the entries "prefix<ID>" of a directory as a set.
func numbered[T ~int](t *tree, dir, prefix string) (Set[T], error) {
	var ids Set[T]
	names, err := t.names(dir)
	for _, name := range names {
		if digits, ok := strings.CutPrefix(name, prefix); ok {
			if id, err := parseID(digits); err == nil {
				ids.Add(T(id))
			}
		}
	}
	return ids, err
}

// setFile reads a set in list format.
func setFile[T ~int](t *tree, name string) (set Set[T], ok bool, err error) {
	text, ok, err := t.read(name)
	if err == nil && ok {
		if set, err = ParseSet[T](text); err != nil {
			err = fmt.Errorf("read %s: %w", name, err)
		}
	}
	return set, ok && err == nil, err
}

// cpuSet reads the first of the files dir/names that exists. A name that ends
// in "list" is in list format, any other a mask (Documentation/admin-guide/cputopology.rst).
func (t *tree) cpuSet(dir string, names ...string) (cpus CPUSet, ok bool, err error) {
	return t.cpuSetWith(None, dir, names...)
}

// cpuSetWith is cpuSet for files that must hold the CPU self: one that does not
// is passed over while another is there.
func (t *tree) cpuSetWith(self CPUID, dir string, names ...string) (first CPUSet, found bool, err error) {
	for _, name := range names {
		file := dir + "/" + name
		text, ok, err := t.read(file)
		if err != nil {
			return CPUSet{}, false, err
		}
		if !ok {
			continue
		}
		var cpus CPUSet
		if strings.HasSuffix(name, "list") {
			cpus, err = ParseCPUSet(text)
		} else {
			cpus, err = ParseMask(text)
		}
		if err != nil {
			return CPUSet{}, false, fmt.Errorf("read %s: %w", file, err)
		}
		if self == None || cpus.Has(self) {
			return cpus, true, nil
		}
		if !found {
			first, found = cpus, true
		}
	}
	return first, found, nil
}

// ParseMask reads the kernel's mask format (cpuset(7), "Mask format"): words
// of up to 32 bits in hexadecimal, highest first, separated by commas.
func ParseMask(mask string) (CPUSet, error) {
	var s CPUSet
	words := strings.Split(mask, ",")
	for i, word := range words {
		v, err := strconv.ParseUint(strings.TrimSpace(word), 16, 32)
		if err != nil {
			return CPUSet{}, fmt.Errorf("want 32 bits in hexadecimal, have %q in mask %q", clip(word), clip(mask))
		}
		base := (len(words) - 1 - i) * 32
		for bit := 0; v != 0; bit, v = bit+1, v>>1 {
			if v&1 == 0 {
				continue
			}
			if base+bit > MaxID {
				return CPUSet{}, fmt.Errorf("CPU %d in the mask is over %d", base+bit, MaxID)
			}
			s.Add(CPUID(base + bit))
		}
	}
	return s, nil
}

// Mask writes a set in the kernel's mask format, in words of 32 bits: "1,00000000"
// for CPU 32; "0" for the empty set.
func Mask(s CPUSet) string {
	words := make([]uint32, max(0, int(s.Max()))/32+1)
	for cpu := range s.All() {
		words[len(words)-1-int(cpu)/32] |= 1 << (uint(cpu) % 32)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%x", words[0])
	for _, w := range words[1:] {
		fmt.Fprintf(&b, ",%08x", w)
	}
	return b.String()
}

// parseCacheSize reads "32K", "8M" or "1G", as in cpuN/cache/indexM/size.
func parseCacheSize(text string) KiB {
	unit := KiB(1)
	digits := strings.TrimRight(text, "KMG")
	switch strings.TrimPrefix(text, digits) {
	case "K":
	case "M":
		unit = 1 << 10
	case "G":
		unit = 1 << 20
	default:
		return None
	}
	n, err := strconv.ParseUint(digits, 10, 31)
	if err != nil || n == 0 {
		return None
	}
	return KiB(n) * unit
}
