package store

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
)

// record is one key of a bucket with its value.
type record struct{ key, value []byte }

// readPages reads the buckets of a bbolt file from its bytes, for a file of one level of
// buckets as the store makes it. It follows every page and believes none: bbolt itself
// maps the file and takes the offsets in it as they are, so that a damaged one is a
// memory fault, or a page in use that is overwritten as free. What readPages accepts
// bbolt reads and writes without a fault. The format is that of bbolt's
// internal/common/page.go, meta.go and inode.go.
func readPages(data []byte) (map[string][]record, error) {
	f, m, err := readMeta(data)
	if err != nil {
		return nil, err
	}
	buckets := map[string][]record{}
	err = f.walk(m.root, nil, nil, func(flags uint32, name, value []byte) error {
		if flags != isBucket || len(value) < bucketSize {
			return errors.New("a value where only buckets are")
		}
		records := []record{}
		collect := func(flags uint32, key, value []byte) error {
			if flags != 0 {
				return errors.New("a bucket where only values are")
			}
			records = append(records, record{key, value})
			return nil
		}
		var err error
		if root := word64(value); root != 0 {
			err = f.walk(root, nil, nil, collect)
		} else if inline := value[bucketSize:]; len(inline) < pageHeader || word64(inline) != 0 ||
			word16(inline[8:]) != leafPage || word32(inline[12:]) != 0 {
			err = errors.New("no page")
		} else {
			err = leaf(inline, nil, nil, collect)
		}
		if err != nil {
			return fmt.Errorf("bucket %q: %w", name, err)
		}
		buckets[string(name)] = records
		return nil
	})
	if err != nil {
		return nil, err
	}
	return buckets, f.checkFree(m.freelist)
}

const (
	pageHeader  = 16 // id uint64, flags uint16, count uint16, overflow uint32
	metaSize    = 64
	elementSize = 16 // of leaf and branch pages
	bucketSize  = 16 // root uint64, sequence uint64

	branchPage   = 1
	leafPage     = 2
	freelistPage = 16

	isBucket = 1 // flag of an element in a leaf page
)

// bbolt writes numbers as the machine has them.
func word16(b []byte) uint16 { return binary.NativeEndian.Uint16(b) }
func word32(b []byte) uint32 { return binary.NativeEndian.Uint32(b) }
func word64(b []byte) uint64 { return binary.NativeEndian.Uint64(b) }

type meta struct{ pageSize, root, freelist, end, txid uint64 }

// pageFile is a file cut into pages.
type pageFile struct {
	data []byte
	size uint64 // of a page
	used []bool // by page number, as far as they are in use
}

// readMeta reads the two meta pages, which transactions write in turn. Both must be
// whole and of neighbouring transactions. bbolt would go back to the older one when the
// newer is damaged, and so forget a transaction that was said to be on disk; that saves
// a file only where a crash tears the 80 bytes of a meta page, which lie in one sector.
func readMeta(data []byte) (*pageFile, meta, error) {
	first, err := parseMeta(data)
	if err != nil {
		return nil, meta{}, fmt.Errorf("first meta page: %w", err)
	}
	if s := first.pageSize; s < 512 || s&(s-1) != 0 || s > uint64(len(data))/4 {
		return nil, meta{}, fmt.Errorf("pages of %d bytes in a file of %d", s, len(data))
	}
	second, err := parseMeta(data[first.pageSize:])
	if err != nil {
		return nil, meta{}, fmt.Errorf("second meta page: %w", err)
	}
	m := first
	if second.txid > first.txid {
		m = second
	}
	if d := first.txid - second.txid; (d != 1 && d != ^uint64(0)) || m.pageSize != first.pageSize {
		return nil, meta{}, errors.New("the meta pages do not belong together")
	}
	if m.end > uint64(len(data))/m.pageSize {
		return nil, meta{}, fmt.Errorf("%d bytes long, %d pages of %d are in use", len(data), m.end, m.pageSize)
	}
	return &pageFile{data: data, size: m.pageSize, used: make([]bool, m.end)}, m, nil
}

func parseMeta(data []byte) (meta, error) {
	if len(data) < pageHeader+metaSize {
		return meta{}, errors.New("cut off")
	}
	b := data[pageHeader:]
	if word32(b) != 0xED0CDAED || word32(b[4:]) != 2 {
		return meta{}, errors.New("not of bbolt, version 2")
	}
	sum := fnv.New64a()
	sum.Write(b[:metaSize-8])
	if sum.Sum64() != word64(b[metaSize-8:]) {
		return meta{}, errors.New("its checksum is wrong")
	}
	return meta{pageSize: uint64(word32(b[8:])), root: word64(b[16:]), freelist: word64(b[32:]), end: word64(b[40:]),
		txid: word64(b[48:])}, nil
}

// page is page id with those that it runs over into, each of which is used once.
func (f *pageFile) page(id uint64) ([]byte, error) {
	if id < 2 || id >= uint64(len(f.used)) {
		return nil, fmt.Errorf("page %d is none", id)
	}
	b := f.data[id*f.size:]
	n := 1 + uint64(word32(b[12:]))
	if word64(b) != id || n > uint64(len(f.used))-id {
		return nil, fmt.Errorf("page %d is damaged", id)
	}
	for i := id; i < id+n; i++ {
		if f.used[i] {
			return nil, fmt.Errorf("page %d is used twice", i)
		}
		f.used[i] = true
	}
	return b[:n*f.size], nil
}

// walk visits the elements below a page, whose keys lie from low on and before high;
// nil bounds nothing.
func (f *pageFile) walk(id uint64, low, high []byte, visit func(flags uint32, key, value []byte) error) error {
	b, err := f.page(id)
	if err != nil {
		return err
	}
	if flags := word16(b[8:]); flags == leafPage {
		if err := leaf(b, low, high, visit); err != nil {
			return fmt.Errorf("page %d: %w", id, err)
		}
		return nil
	} else if flags != branchPage {
		return fmt.Errorf("page %d is of type %#x", id, flags)
	}
	count := int(word16(b[10:]))
	if count == 0 {
		return fmt.Errorf("page %d is empty", id)
	}
	keys := make([][]byte, count+1)
	keys[count] = high
	for i := range count {
		if keys[i], _, err = element(b, i, 0, 4, -1); err == nil {
			err = inOrder(low, keys[i], high)
		}
		if err != nil {
			return fmt.Errorf("page %d: %w", id, err)
		}
		low = keys[i]
	}
	for i := range count {
		if i+1 < count && bytes.Equal(keys[i], keys[i+1]) {
			return fmt.Errorf("page %d has a key twice", id)
		}
		child := word64(b[pageHeader+elementSize*i+8:])
		if err := f.walk(child, keys[i], keys[i+1], visit); err != nil {
			return err
		}
	}
	return nil
}

// leaf visits the elements of a leaf page.
func leaf(b, low, high []byte, visit func(flags uint32, key, value []byte) error) error {
	for i := range int(word16(b[10:])) {
		key, value, err := element(b, i, 4, 8, 12)
		if err == nil {
			err = inOrder(low, key, high)
		}
		if err == nil && i > 0 && bytes.Equal(low, key) {
			err = errors.New("a key is there twice")
		}
		if err == nil {
			err = visit(word32(b[pageHeader+elementSize*i:]), key, value)
		}
		if err != nil {
			return err
		}
		low = key
	}
	return nil
}

// element is key and value of element i of a page, whose numbers lie at the given
// places within it: where its key is, counted from the element, and how long key and
// value are. Without a place for it there is no value.
func element(b []byte, i, posAt, keyAt, valueAt int) (key, value []byte, err error) {
	at := pageHeader + elementSize*i
	if at+elementSize > len(b) {
		return nil, nil, fmt.Errorf("element %d is not in the page", i)
	}
	e := b[at:]
	pos := uint64(word32(e[posAt:]))
	keySize := uint64(word32(e[keyAt:]))
	valueSize := uint64(0)
	if valueAt >= 0 {
		valueSize = uint64(word32(e[valueAt:]))
	}
	if keySize == 0 || pos+keySize+valueSize > uint64(len(e)) {
		return nil, nil, fmt.Errorf("element %d runs out of the page", i)
	}
	return e[pos : pos+keySize : pos+keySize], e[pos+keySize:][:valueSize:valueSize], nil
}

func inOrder(low, key, high []byte) error {
	if (low != nil && bytes.Compare(low, key) > 0) || (high != nil && bytes.Compare(key, high) >= 0) {
		return errors.New("keys are out of order")
	}
	return nil
}

// checkFree checks that the pages that nothing uses are just those in the list of free
// ones, from which the next transaction takes its pages.
func (f *pageFile) checkFree(id uint64) error {
	b, err := f.page(id)
	if err != nil {
		return fmt.Errorf("list of free pages: %w", err)
	}
	if word16(b[8:]) != freelistPage {
		return errors.New("no list of free pages")
	}
	count, ids := uint64(word16(b[10:])), b[pageHeader:]
	if count == 0xFFFF { // it did not fit
		count, ids = word64(ids), ids[8:]
	}
	if count > uint64(len(ids))/8 {
		return errors.New("the list of free pages is cut off")
	}
	for i := range count {
		free := word64(ids[8*i:])
		if free < 2 || free >= uint64(len(f.used)) || f.used[free] {
			return fmt.Errorf("page %d is in the list of free pages", free)
		}
		f.used[free] = true
	}
	for i, used := range f.used[2:] {
		if !used {
			return fmt.Errorf("page %d is neither used nor free", i+2)
		}
	}
	return nil
}
