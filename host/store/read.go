package store

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"slices"

	bolt "go.etcd.io/bbolt"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/workload"
)

// Journal is all live entries, rising by Seq.
func (s *Store) Journal() ([]plan.Entry, error) { return readAll[plan.Entry](s, bucketJournal) }

// LastSeq is the number of the newest entry that the journal ever had.
func (s *Store) LastSeq() (seq uint64, err error) {
	err = s.view(func(tx *bolt.Tx) error {
		if s.schema < 2 {
			seq = tx.Bucket(bucketJournal).Sequence()
			return nil
		}
		t, err := openTable(tx, bucketJournal)
		if err == nil {
			seq = t.Last
		}
		return err
	})
	return seq, err
}

var keyPlacements = []byte("placements")

// Placements is the ledger of homes as last written.
func (s *Store) Placements() (p []plan.Placement, err error) {
	_, err = s.load(bucketLedger, keyPlacements, &p)
	return p, err
}

// Moves is the newest move of each workload, rising by workload ID.
func (s *Store) Moves() ([]plan.Move, error) { return readAll[plan.Move](s, bucketMoves) }

// History is the events that are asked for, oldest first: the newest of any kind, and older
// steps and orders. They are read from the newest on until there are enough; what is about
// another workload is not decoded.
func (s *Store) History(q plan.EventQuery) (events []plan.Event, err error) {
	id, err := json.Marshal(q.Workload)
	if err != nil {
		return nil, err
	}
	about := slices.Concat(workloadKey, id)
	err = s.eachEvent(func(bucket, seq, value []byte) (more bool, err error) {
		if q.Workload != "" && !bytes.Contains(value, about) {
			return true, nil
		}
		var e plan.Event
		if err := s.decode(bucket, seq, value, &e); err != nil {
			return false, err
		}
		if q.Has(&e) {
			events = append(events, e)
		}
		return q.Limit <= 0 || len(events) < q.Limit, nil
	})
	slices.Reverse(events)
	return events, err
}

// workloadKey stands before the workload of an event as plan.Event is written.
var workloadKey = []byte(`"workload":`)

// About is the workloads that events are about, each once, rising.
func (s *Store) About() (ids []workload.ID, err error) {
	seen := map[string]bool{}
	err = s.eachEvent(func(bucket, seq, value []byte) (more bool, err error) {
		_, rest, found := bytes.Cut(value, workloadKey)
		if !found || len(rest) == 0 || rest[0] != '"' {
			return true, nil
		}
		end := 1
		for ; end < len(rest) && rest[end] != '"'; end++ {
			if rest[end] == '\\' {
				end++
			}
		}
		text := rest[:min(end+1, len(rest))]
		if seen[string(text)] {
			return true, nil
		}
		seen[string(text)] = true
		var id workload.ID
		if err := json.Unmarshal(text, &id); err != nil {
			return false, fmt.Errorf("%s %q: %w", bucket, seq, err)
		}
		ids = append(ids, id)
		return true, nil
	})
	slices.Sort(ids)
	return ids, err
}

// eachEvent calls do with every event as it is stored, once, from the newest on, until do has
// enough.
func (s *Store) eachEvent(do func(bucket, seq, value []byte) (more bool, err error)) error {
	return s.view(func(tx *bolt.Tx) error {
		type part struct {
			name       []byte
			c          *bolt.Cursor
			key, value []byte
		}
		var parts []*part
		for _, name := range slices.Concat([][]byte{bucketHistory}, laterBuckets) {
			if b := tx.Bucket(name); b != nil {
				p := &part{name: name, c: b.Cursor()}
				p.key, p.value = p.c.Last()
				parts = append(parts, p)
			}
		}
		for {
			newest := slices.MaxFunc(parts, func(x, y *part) int { return bytes.Compare(x.key, y.key) }) // nil is least
			if newest.key == nil {
				return nil
			}
			if more, err := do(newest.name, newest.key, newest.value); err != nil || !more {
				return err
			}
			seq := newest.key
			for _, p := range parts {
				if bytes.Equal(p.key, seq) {
					p.key, p.value = p.c.Prev()
				}
			}
		}
	})
}

// Load reads the value kept under key into v and reports whether there is one.
func (s *Store) Load(key string, v any) (found bool, err error) {
	found, err = s.load(bucketValues, []byte(key), v)
	old := renamed[key]
	if found || err != nil || old == "" || s.schema >= 4 {
		return found, err
	}
	var text json.RawMessage
	found, err = s.load(bucketValues, []byte(old), &text)
	if !found || err != nil {
		return found, err
	}
	present, err := current(key, text)
	if err != nil {
		return true, err
	}
	return true, json.Unmarshal(present, v)
}

func (s *Store) load(bucket, key []byte, v any) (found bool, err error) {
	err = s.view(func(tx *bolt.Tx) error {
		value := tx.Bucket(bucket).Get(key)
		if found = value != nil; !found {
			return nil
		}
		return s.decode(bucket, key, value, v)
	})
	return found, err
}

func readAll[T any](s *Store, bucket []byte) (all []T, err error) {
	err = s.view(func(tx *bolt.Tx) error {
		return tx.Bucket(bucket).ForEach(func(k, value []byte) error {
			var t T
			if err := s.decode(bucket, k, value, &t); err != nil {
				return err
			}
			all = append(all, t)
			return nil
		})
	})
	return all, err
}

// decode reads a value of the file.
func (s *Store) decode(bucket, key, value []byte, v any) (err error) {
	if s.schema >= 2 {
		if value, _, err = unseal(bucket, key, value); err != nil {
			return err
		}
	}
	if err := json.Unmarshal(value, v); err != nil {
		return fmt.Errorf("%s %q: %w", bucket, key, err)
	}
	return nil
}

// key makes numbers sort as they count.
func key(seq uint64) []byte { return binary.BigEndian.AppendUint64(nil, seq) }
