package store

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
	"strconv"

	bolt "go.etcd.io/bbolt"

	"github.com/homenode/homenode/core/plan"
)

// A value is its checksum, a space and JSON, as "1a2b3c4d {…}". The checksum is over
// its bucket and its key too: what stands in the wrong place is damaged.

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

const sumSize = len("1a2b3c4d ")

func checksum(bucket, key, text []byte) uint32 {
	sum := crc32.Checksum(bucket, castagnoli)
	sum = crc32.Update(sum, castagnoli, binary.BigEndian.AppendUint32(nil, uint32(len(key))))
	sum = crc32.Update(sum, castagnoli, key)
	return crc32.Update(sum, castagnoli, text)
}

// seal is the value to store for a text.
func seal(bucket, key, text []byte) []byte {
	return append(fmt.Appendf(nil, "%08x ", checksum(bucket, key, text)), text...)
}

// damage says what is wrong with what the file holds; the methods of Store return it as
// a CorruptError.
type damage string

func (d damage) Error() string { return string(d) }

// unseal is the text of a stored value, and its checksum.
func unseal(bucket, key, value []byte) (text []byte, sum uint32, err error) {
	if len(value) > sumSize {
		text, sum = value[sumSize:], checksum(bucket, key, value[sumSize:])
	}
	if string(value[:min(sumSize, len(value))]) != fmt.Sprintf("%08x ", sum) {
		return nil, 0, damage(fmt.Sprintf("the checksum of %s %q is wrong", bucket, key))
	}
	return text, sum, nil
}

// totals are kept of each bucket, so that a value that is missing is noticed too, and
// one that is there again.
type totals struct {
	Last  uint64 `json:"last"` // the highest number ever given, where keys are numbers
	Count int    `json:"count"`
	Sum   uint64 `json:"sum"` // of all checksums
}

// table is a bucket in a transaction that writes.
type table struct {
	totals
	name   []byte
	bucket *bolt.Bucket
	tx     *bolt.Tx
}

func openTable(tx *bolt.Tx, name []byte) (*table, error) {
	t := &table{name: name, bucket: tx.Bucket(name), tx: tx}
	text, _, err := unseal(bucketMeta, name, tx.Bucket(bucketMeta).Get(name))
	if err != nil {
		return nil, err
	}
	return t, json.Unmarshal(text, &t.totals)
}

// save writes the totals.
func (t *table) save() error {
	text, err := json.Marshal(t.totals)
	if err != nil {
		return err
	}
	return t.tx.Bucket(bucketMeta).Put(t.name, seal(bucketMeta, t.name, text))
}

func (t *table) put(key []byte, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return t.putText(key, text)
}

func (t *table) putText(key, text []byte) error {
	if err := t.forget(key); err != nil {
		return err
	}
	t.Count++
	t.Sum += uint64(checksum(t.name, key, text))
	return t.bucket.Put(key, seal(t.name, key, text))
}

func (t *table) delete(key []byte) error {
	if err := t.forget(key); err != nil {
		return err
	}
	return t.bucket.Delete(key)
}

// forget takes the value under key, if there is one, out of the totals.
func (t *table) forget(key []byte) error {
	old := t.bucket.Get(key)
	if old == nil {
		return nil
	}
	_, sum, err := unseal(t.name, key, old)
	if err != nil {
		return err
	}
	t.Count--
	t.Sum -= uint64(sum)
	return nil
}

// writtenBy is the version that wrote last, as far as it can be read in a file of a newer
// schema.
func writtenBy(buckets map[string][]record) (version string) {
	for _, r := range buckets[string(bucketValues)] {
		if string(r.key) != plan.KeyVersion {
			continue
		}
		if text, _, err := unseal(bucketValues, r.key, r.value); err == nil && json.Unmarshal(text, &version) != nil {
			version = ""
		}
	}
	return version
}

// verify checks all that a file holds, as readPages found it, and says which schema it
// has. Files of schema 1 have no checksums.
func verify(buckets map[string][]record) (have int, err error) {
	for _, name := range allBuckets {
		if buckets[string(name)] == nil {
			return 0, fmt.Errorf("no bucket %s", name)
		}
	}
	inMeta := map[string][]byte{}
	for _, r := range buckets[string(bucketMeta)] {
		inMeta[string(r.key)] = r.value
	}
	have, err = strconv.Atoi(string(inMeta["schema"]))
	if err != nil || have < 1 {
		return 0, errors.New("no schema number")
	}
	if have > schema {
		return have, nil
	}
	for _, name := range slices.Concat(allBuckets, laterBuckets) {
		switch {
		case string(name) == string(bucketMeta):
			continue
		case buckets[string(name)] != nil:
		case inMeta[string(name)] != nil:
			return 0, fmt.Errorf("no bucket %s", name)
		default: // of a version that did not have it
			continue
		}
		var found totals
		for _, r := range buckets[string(name)] {
			text, sum := r.value, uint32(0)
			if have > 1 {
				if text, sum, err = unseal(name, r.key, r.value); err != nil {
					return 0, err
				}
			}
			if have == 1 && !json.Valid(text) { // what has a checksum was written as JSON
				return 0, fmt.Errorf("%s %q is not JSON", name, r.key)
			}
			found.Count++
			found.Sum += uint64(sum)
		}
		if have == 1 {
			continue
		}
		text, _, err := unseal(bucketMeta, name, inMeta[string(name)])
		if err != nil {
			return 0, err
		}
		var want totals
		if err := json.Unmarshal(text, &want); err != nil {
			return 0, fmt.Errorf("totals of %s: %w", name, err)
		}
		if found.Last = want.Last; found != want {
			return 0, fmt.Errorf("%s has %d values, and not the %d that were written", name, found.Count, want.Count)
		}
	}
	return have, nil
}
