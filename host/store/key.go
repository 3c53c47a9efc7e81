package store

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// keyName is the file of the key of this host, beside the journal; keySize is its length in bytes, that of the
// hash it is used with (SHA-256).
const (
	keyName = "host.key"
	keySize = 32
)

// HostKey returns the secret key of this host, which it makes when dir has none. The file is readable by its owner
// alone. One that others can read, or that is cut short, is replaced: what it signed is no longer believed.
func HostKey(dir string) (key []byte, err error) {
	f, err := openFolder(dir)
	if err != nil {
		return nil, fmt.Errorf("read the key of this host: %w", err)
	}
	defer f.close()
	key, err = f.readKey()
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, errNoKey) {
		key, err = f.makeKey()
	}
	if err != nil {
		return nil, fmt.Errorf("read the key of this host: %w", err)
	}
	return key, nil
}

// errNoKey is a file that is no secret key.
var errNoKey = errors.New("no secret key")

func (f *folder) readKey() ([]byte, error) {
	file, err := f.open(keyName, unix.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if info.Mode().Perm()&0o077 != 0 {
		return nil, errNoKey
	}
	key, err := io.ReadAll(io.LimitReader(file, keySize+1))
	if err != nil {
		return nil, err
	}
	if len(key) != keySize {
		return nil, errNoKey
	}
	return key, nil
}

// makeKey writes a new key to a file of its own, and gives that its name when it is on disk: a crash
// leaves the old key or the new one.
func (f *folder) makeKey() ([]byte, error) {
	const fresh = keyName + ".new"
	if err := f.remove(fresh); err != nil {
		return nil, err
	}
	file, err := f.open(fresh, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	key := make([]byte, keySize)
	rand.Read(key)
	_, err = file.Write(key)
	if err = errors.Join(err, file.Sync(), file.Close()); err != nil {
		return nil, &fs.PathError{Op: "write", Path: filepath.Join(f.path, fresh), Err: err}
	}
	return key, f.rename(fresh, keyName)
}
