package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"

	bolt "go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"
	"golang.org/x/sys/unix"
)

const (
	fileName = "homenode.db"

	// schema is the form of the values. Raise it when an older homenode would
	// misread what a newer one wrote.
	schema = 1

	// keepEvents bounds the history. At the few events a minute of a busy host
	// it is days; at some 200 bytes each the file stays at a few MiB.
	keepEvents = 10_000

	// keepMoves bounds the page moves kept of workloads that may long be gone.
	keepMoves = 1_000
)

// Buckets. All exist from the creation of the file on.
var (
	bucketMeta    = []byte("meta")    // "schema" → number
	bucketJournal = []byte("journal") // sequence → plan.Entry, live ones only
	bucketLedger  = []byte("ledger")  // "placements" → []plan.Placement
	bucketMoves   = []byte("moves")   // workload → plan.Move
	bucketHistory = []byte("history") // sequence → plan.Event
	bucketValues  = []byte("values")  // key → JSON of the caller

	buckets = [][]byte{bucketMeta, bucketJournal, bucketLedger, bucketMoves, bucketHistory, bucketValues}
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
	return fmt.Sprintf("%s is damaged (%s): keep a copy, then put back a backup of it, or move it away to start anew; "+
		"starting anew forgets the settings from before homenode, which undo then cannot restore", e.Path, e.Why)
}

// SchemaError says that the file was written by a newer homenode.
type SchemaError struct {
	Path string
	Have int
}

func (e *SchemaError) Error() string {
	return fmt.Sprintf("%s has schema %d and this homenode knows schemas up to %d: use the newer homenode that wrote it", e.Path, e.Have, schema)
}

// Store is the open file. Its methods may be called from several goroutines.
type Store struct {
	db         *bolt.DB
	lock       *os.File // nil when there is no daemon to be kept out
	path       string
	keepEvents int
	keepMoves  int
}

// Open opens the store in dir for one daemon, creating both when missing. While
// another process has it, the error wraps ErrLocked.
func Open(dir string) (*Store, error) {
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return nil, err
	}
	l, err := lock(dir, true)
	if err != nil {
		return nil, err
	}
	path := filepath.Join(dir, fileName)
	if _, err = os.Lstat(path); errors.Is(err, os.ErrNotExist) {
		err = create(path)
	}
	var s *Store
	if err == nil {
		s, err = open(path, l, false)
	}
	if err != nil {
		l.Close()
		return nil, err
	}
	return s, nil
}

// OpenReadOnly opens the store in dir to look at it while no daemon runs; it
// creates nothing. With a daemon running the error wraps ErrLocked (ask the
// daemon), without a store fs.ErrNotExist. Close soon: a daemon that starts
// meanwhile waits only a moment.
func OpenReadOnly(dir string) (*Store, error) {
	path := filepath.Join(dir, fileName)
	if _, err := os.Lstat(path); err != nil {
		return nil, err
	}
	l, err := lock(dir, false)
	if err != nil {
		return nil, err
	}
	s, err := open(path, l, true)
	if err != nil && l != nil {
		l.Close()
	}
	return s, err
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
func create(path string) error {
	tmp := path + ".new"
	if err := os.Remove(tmp); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	db, err := bolt.Open(tmp, 0o600, &bolt.Options{Timeout: lockWait})
	if err != nil {
		return fmt.Errorf("create %s: %w", path, err)
	}
	err = db.Update(func(tx *bolt.Tx) error {
		for _, name := range buckets {
			if _, err := tx.CreateBucket(name); err != nil {
				return err
			}
		}
		return tx.Bucket(bucketMeta).Put([]byte("schema"), []byte(strconv.Itoa(schema)))
	})
	if err = errors.Join(err, db.Close()); err != nil {
		return fmt.Errorf("create %s: %w", path, err)
	}
	if err := os.Rename(tmp, path); err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

func open(path string, l *os.File, readOnly bool) (*Store, error) {
	if err := whole(path); err != nil {
		return nil, err
	}
	s := &Store{lock: l, path: path, keepEvents: keepEvents, keepMoves: keepMoves}
	var file *os.File
	err := s.guard(func() (err error) {
		s.db, err = bolt.Open(path, 0o600, &bolt.Options{ReadOnly: readOnly, Timeout: lockWait,
			OpenFile: func(name string, flag int, mode os.FileMode) (f *os.File, err error) {
				file, err = os.OpenFile(name, flag, mode)
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
	switch {
	case errors.Is(err, berrors.ErrTimeout):
		return nil, &LockedError{Dir: filepath.Dir(path)}
	case errors.Is(err, berrors.ErrInvalid), errors.Is(err, berrors.ErrChecksum), errors.Is(err, berrors.ErrVersionMismatch):
		return nil, &CorruptError{path, err.Error()}
	case err != nil:
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	if err := s.verify(); err != nil {
		s.guard(s.db.Close)
		return nil, err
	}
	return s, nil
}

// whole checks that the file is as long as its meta pages say, before bbolt maps
// it: a mapped page behind the end of the file is SIGBUS, which no error
// handling survives.
func whole(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return &CorruptError{path, "not a regular file"}
	}
	if info.Size() < 4*int64(os.Getpagesize()) {
		return &CorruptError{path, fmt.Sprintf("only %d bytes long", info.Size())}
	}
	return nil
}

// verify walks every page that the store uses and reads every value, so that
// damage shows when the daemon starts and not when undo needs the entry.
func (s *Store) verify() error {
	var damage error
	return s.guard(func() error {
		return s.db.View(func(tx *bolt.Tx) error {
			info, err := os.Stat(s.path)
			if err != nil {
				return err
			}
			if info.Size() < tx.Size() {
				return &CorruptError{s.path, fmt.Sprintf("%d bytes long, %d are in use", info.Size(), tx.Size())}
			}
			meta := tx.Bucket(bucketMeta)
			if meta == nil {
				return &CorruptError{s.path, "not a homenode store"}
			}
			have, err := strconv.Atoi(string(meta.Get([]byte("schema"))))
			if err != nil || have < 1 {
				return &CorruptError{s.path, "no schema number"}
			}
			if have > schema {
				return &SchemaError{s.path, have}
			}
			for _, name := range buckets {
				b := tx.Bucket(name)
				if b == nil {
					return &CorruptError{s.path, fmt.Sprintf("no bucket %s", name)}
				}
				err := b.ForEach(func(k, v []byte) error {
					if v == nil || !json.Valid(v) {
						return &CorruptError{s.path, fmt.Sprintf("%s %x is not readable", name, k)}
					}
					return nil
				})
				if err != nil {
					return err
				}
			}
			// bbolt's own check runs on a goroutine of its own, where guard does not
			// reach: only after every page has been walked here without a fault.
			for err := range tx.Check() {
				if damage == nil {
					damage = &CorruptError{s.path, err.Error()}
				}
			}
			return damage
		})
	})
}

// guard turns a panic or a memory fault out of bbolt, which both mean a damaged
// page, into an error.
func (s *Store) guard(do func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if r := recover(); r != nil {
			err = &CorruptError{s.path, fmt.Sprint(r)}
		}
	}()
	return do()
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
