package store

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"

	bolt "go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"
	"golang.org/x/sys/unix"

	"github.com/homenode/homenode/core/plan"
)

const (
	fileName = "homenode.db"

	// schema is the form of the values. Raise it when an older homenode would
	// misread what a newer one wrote. 1 had no checksums; 2 called class and tier batch offline;
	// 3 had other names for two values (renamed.go).
	schema = 4

	// keepEvents bounds the newest events of all kinds. Steps and orders are kept beside
	// them, each within a bound of its own, so that nothing else can push them out.
	//
	// Steps are what was changed, moved, restored or failed to: about four lines for each
	// workload that is given a home. 40,000 are 10,000 homes: three months at 110 a day.
	// Orders are what people asked for: three months at 110 a day. At some 300 bytes each
	// all of it is 18 MB, and 20 MB when it is about to be trimmed (see shareholder).
	keepEvents = 10_000
	keepSteps  = 40_000
	keepOrders = 10_000

	// keepMoves bounds the page moves kept of workloads that may long be gone.
	keepMoves = 1_000

	// mostBytes bounds what is read into memory to be checked; a store has some MiB.
	mostBytes = 1 << 30
)

// Buckets. All exist from the creation of the file on.
var (
	bucketMeta    = []byte("meta")    // "schema" → number; bucket → totals
	bucketJournal = []byte("journal") // Seq → plan.Entry, live ones only
	bucketLedger  = []byte("ledger")  // "placements" → []plan.Placement
	bucketMoves   = []byte("moves")   // workload → plan.Move
	bucketHistory = []byte("history") // Seq → plan.Event
	bucketValues  = []byte("values")  // key → JSON of the caller
	bucketSteps   = []byte("steps")   // Seq → plan.Event, of the kinds of step
	bucketOrders  = []byte("orders")  // Seq → plan.Event, of kind order

	// laterBuckets are not in files of homenode 0.1, which leaves them as they are: the
	// events in them are in the history, too, as long as they are among the newest.
	laterBuckets = [][]byte{bucketSteps, bucketOrders}

	allBuckets = [][]byte{bucketMeta, bucketJournal, bucketLedger, bucketMoves, bucketHistory, bucketValues}
)

// ErrReadOnly is returned by methods that write when the store was opened with
// OpenReadOnly.
var ErrReadOnly = errors.New("store is open for reading only")

// CorruptError says that the file can not be used. It is never replaced
// silently: it holds the only record of how to put the host back.
type CorruptError struct {
	Path string
	Why  string
}

func (e *CorruptError) Error() string {
	return fmt.Sprintf("%s is damaged (%s): keep a copy, then restore a backup of it, or move it away to start anew; "+
		"starting anew forgets the settings from before homenode, which undo then cannot restore", e.Path, e.Why)
}

// SchemaError says that the file was written by a newer homenode.
type SchemaError struct {
	Path string
	Have int
	By   string // the version that wrote it; "" when it does not say
}

func (e *SchemaError) Error() string {
	by := "a newer homenode"
	if e.By != "" {
		by = "homenode " + e.By
	}
	return fmt.Sprintf("%s was written by %s (schema %d, and this one knows schemas up to %d): use that version or a "+
		"newer one; "+
		"to stay with this one, run `homenode undo --all` with that version, then move the file away", e.Path, by,
		e.Have, schema)
}

// Store is the open file. Its methods may be called from several goroutines.
type Store struct {
	db         *bolt.DB
	lock       *os.File // nil when there is no daemon to be kept out
	path       string
	schema     int // of the file
	keepEvents int
	keepSteps  int
	keepOrders int
	keepMoves  int
}

// Open opens the store in dir for one daemon, creating both when missing. While
// another process has it, the error wraps ErrLocked.
func Open(dir string) (*Store, error) {
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return nil, err
	}
	return openIn(dir, func(f *folder) (*Store, error) {
		l, err := f.lock(true)
		if err != nil {
			return nil, err
		}
		s, err := f.openStore(l, false)
		if errors.Is(err, fs.ErrNotExist) {
			if err = f.create(); err == nil {
				s, err = f.openStore(l, false)
			}
		}
		if err == nil {
			if err = s.upgrade(); err != nil {
				s.Close()
			}
		}
		if err != nil {
			l.Close()
			return nil, err
		}
		return s, nil
	})
}

// OpenReadOnly opens the store in dir to look at it while no daemon runs; it
// creates nothing. With a daemon running the error wraps ErrLocked (ask the
// daemon), without a store fs.ErrNotExist. Close soon: a daemon that starts
// meanwhile waits only a moment.
func OpenReadOnly(dir string) (*Store, error) {
	return openIn(dir, func(f *folder) (*Store, error) {
		l, err := f.lock(false)
		if err != nil {
			return nil, err
		}
		s, err := f.openStore(l, true)
		if err != nil && l != nil {
			l.Close()
		}
		return s, err
	})
}

// OpenForUndo is Open of a store that is there; where it cannot be written, as on a full
// disk or one that the kernel has made read-only after an error, it is OpenReadOnly:
// what the journal says can be restored all the same, and Commit, which returns
// ErrReadOnly, says that this is not written down.
func OpenForUndo(dir string) (*Store, error) {
	if _, err := os.Lstat(filepath.Join(dir, fileName)); err != nil {
		return nil, err
	}
	s, err := Open(dir)
	if err == nil || errors.Is(err, ErrLocked) {
		return s, err
	}
	if s, err2 := OpenReadOnly(dir); err2 == nil {
		return s, nil
	}
	return nil, err
}

func openIn(dir string, open func(*folder) (*Store, error)) (*Store, error) {
	f, err := openFolder(dir)
	if err != nil {
		return nil, err
	}
	s, err := open(f)
	if err := errors.Join(err, f.close()); err != nil {
		if s != nil {
			s.Close()
		}
		return nil, err
	}
	return s, nil
}

// Close gives the store and its lock back.
func (s *Store) Close() error {
	err := s.db.Close()
	if s.lock != nil {
		err = errors.Join(err, s.lock.Close())
		s.lock = nil
	}
	return err
}

// create writes an empty store beside its place and renames it there, so that a
// crash never leaves a half-made file, and an empty file is known for damage.
func (f *folder) create() error {
	const tmp = fileName + ".new"
	path := filepath.Join(f.path, fileName)
	if err := f.remove(tmp); err != nil {
		return err
	}
	db, err := bolt.Open(filepath.Join(f.path, tmp), 0o600, &bolt.Options{Timeout: lockWait,
		OpenFile: func(_ string, flags int, mode fs.FileMode) (*os.File, error) {
			return f.open(tmp, flags|os.O_EXCL, mode)
		}})
	if err != nil {
		return fmt.Errorf("create %s: %w", path, err)
	}
	err = db.Update(func(tx *bolt.Tx) error {
		for _, name := range allBuckets {
			if _, err := tx.CreateBucket(name); err != nil {
				return err
			}
		}
		return errors.Join(setSchema(tx, 0), addBuckets(tx))
	})
	if err = errors.Join(err, db.Close()); err != nil {
		return fmt.Errorf("create %s: %w", path, err)
	}
	return f.rename(tmp, fileName)
}

// setSchema makes a file of schema have one of this schema.
func setSchema(tx *bolt.Tx, have int) error {
	if have < 2 {
		if err := sealAll(tx); err != nil {
			return err
		}
	}
	if have > 0 { // the file is not new
		if err := rename(tx); err != nil {
			return err
		}
	}
	return tx.Bucket(bucketMeta).Put([]byte("schema"), []byte(strconv.Itoa(schema)))
}

// sealAll gives all values checksums.
func sealAll(tx *bolt.Tx) error {
	for _, name := range allBuckets {
		if string(name) == string(bucketMeta) {
			continue
		}
		var all []record
		t := &table{name: name, bucket: tx.Bucket(name), tx: tx}
		err := t.bucket.ForEach(func(k, v []byte) error {
			all = append(all, record{bytes.Clone(k), bytes.Clone(v)}) // the file may be mapped anew
			return nil
		})
		if err != nil {
			return err
		}
		t.Last = t.bucket.Sequence()
		for _, r := range all {
			if err := t.bucket.Delete(r.key); err != nil {
				return err
			}
			if err := t.putText(r.key, r.value); err != nil {
				return err
			}
		}
		if err := t.save(); err != nil {
			return err
		}
	}
	return nil
}

// addBuckets makes the buckets that a file of an older version lacks.
func addBuckets(tx *bolt.Tx) error {
	for _, name := range laterBuckets {
		if tx.Bucket(name) != nil {
			continue
		}
		b, err := tx.CreateBucket(name)
		if err != nil {
			return err
		}
		t := &table{name: name, bucket: b, tx: tx}
		if err := t.save(); err != nil {
			return err
		}
	}
	return nil
}

// upgrade makes a file of an older version one of this, in one transaction: its schema, and
// the steps and orders that only its history has.
func (s *Store) upgrade() error {
	behind := s.schema < schema
	err := s.view(func(tx *bolt.Tx) error {
		for _, name := range laterBuckets {
			if behind = behind || tx.Bucket(name) == nil; behind {
				return nil
			}
			history, err := openTable(tx, bucketHistory)
			if err != nil {
				return err
			}
			t, err := openTable(tx, name)
			if err != nil {
				return err
			}
			behind = t.Last < history.Last
		}
		return nil
	})
	if err != nil || !behind {
		return err
	}
	err = s.update("upgrade "+s.path, func(tx *bolt.Tx) error {
		if s.schema < schema {
			if err := setSchema(tx, s.schema); err != nil {
				return err
			}
		}
		if err := addBuckets(tx); err != nil {
			return err
		}
		var events []plan.Event
		err := tx.Bucket(bucketHistory).ForEach(func(k, v []byte) error {
			text, _, err := unseal(bucketHistory, k, v)
			if err != nil {
				return err
			}
			events = append(events, plan.Event{})
			return json.Unmarshal(text, &events[len(events)-1])
		})
		if err != nil {
			return err
		}
		return s.keepApart(tx, events)
	})
	if err == nil {
		s.schema = schema
	}
	return err
}

// openStore opens the file when all of it has been checked: before bbolt maps it, and
// when a daemon starts, not when undo needs an entry.
func (f *folder) openStore(l *os.File, readOnly bool) (*Store, error) {
	s := &Store{lock: l, path: filepath.Join(f.path, fileName), keepEvents: keepEvents, keepSteps: keepSteps,
		keepOrders: keepOrders, keepMoves: keepMoves}
	if err := s.check(f); err != nil {
		return nil, err
	}
	var file *os.File
	err := s.guard(func() (err error) {
		s.db, err = bolt.Open(s.path, 0o600, &bolt.Options{ReadOnly: readOnly, Timeout: lockWait,
			OpenFile: func(_ string, flags int, mode fs.FileMode) (_ *os.File, err error) {
				file, err = f.open(fileName, flags&^os.O_CREATE, mode)
				return file, err
			}})
		return err
	})
	if err != nil && file != nil {
		// A panic out of bolt.Open leaves the file open and mapped, and the mapping
		// alone would keep the lock.
		unix.Flock(int(file.Fd()), unix.LOCK_UN)
		file.Close()
	}
	if errors.Is(err, berrors.ErrTimeout) {
		return nil, &LockedError{Dir: f.path}
	}
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", s.path, err)
	}
	return s, nil
}

// check reads all of the file and sets its schema.
func (s *Store) check(f *folder) error {
	file, err := f.open(fileName, os.O_RDONLY, 0)
	if err != nil {
		return err
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, mostBytes+1))
	if err != nil {
		return err
	}
	if len(data) > mostBytes {
		return &CorruptError{s.path, fmt.Sprintf("longer than %d MiB", mostBytes>>20)}
	}
	buckets, err := readPages(data)
	if err == nil {
		s.schema, err = verify(buckets)
	}
	if err != nil {
		return &CorruptError{s.path, err.Error()}
	}
	if s.schema > schema {
		return &SchemaError{s.path, s.schema, writtenBy(buckets)}
	}
	return nil
}

// guard turns a panic or a memory fault out of bbolt into an error. As the file was
// checked when it was opened, both mean that the disk fails now.
func (s *Store) guard(do func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if r := recover(); r != nil {
			err = &CorruptError{s.path, fmt.Sprint(r)}
		}
	}()
	err = do()
	var d damage
	if errors.As(err, &d) {
		return &CorruptError{s.path, string(d)}
	}
	return err
}

func (s *Store) view(do func(*bolt.Tx) error) error {
	return s.guard(func() error { return s.db.View(do) })
}

func (s *Store) update(what string, do func(*bolt.Tx) error) error {
	err := s.guard(func() error { return s.db.Update(do) })
	if errors.Is(err, berrors.ErrDatabaseReadOnly) {
		err = ErrReadOnly
	}
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}
