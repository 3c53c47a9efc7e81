package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/google/renameio/v2"
	"k8s.io/apimachinery/pkg/types"
)

// claimsSchema names the form of the file of claims.
const claimsSchema = "homenode-kube-claims/1"

// claimsFile keeps what was prepared over a restart of the driver.
type claimsFile string

type claimsJSON struct {
	Schema string   `json:"schema"`
	Claims []*claim `json:"claims"`
}

// read is the claims by UID; none when there is no file yet.
func (f claimsFile) read() (map[types.UID]*claim, error) {
	out := map[types.UID]*claim{}
	data, err := os.ReadFile(string(f))
	if errors.Is(err, fs.ErrNotExist) {
		return out, nil
	}
	if err != nil {
		return nil, err
	}
	var in claimsJSON
	if err := json.Unmarshal(data, &in); err != nil {
		return nil, fmt.Errorf("read %s: %w", f, err)
	}
	if in.Schema != claimsSchema {
		return nil, fmt.Errorf("read %s: its form is %q; this driver reads %s", f, in.Schema, claimsSchema)
	}
	for _, c := range in.Claims {
		out[c.UID] = c
	}
	return out, nil
}

// write replaces the file; what is written is on disk when it returns.
func (f claimsFile) write(all map[types.UID]*claim) error {
	out := claimsJSON{Schema: claimsSchema, Claims: []*claim{}}
	for _, uid := range sortedUIDs(all) {
		out.Claims = append(out.Claims, all[uid])
	}
	data, err := json.MarshalIndent(out, "", " ")
	if err != nil {
		return err
	}
	return writeFile(string(f), append(data, '\n'), 0o600)
}

// writeFile puts a file in the place of an older one: after a crash one of the two is there,
// whole.
func writeFile(name string, data []byte, mode os.FileMode) error {
	folder := filepath.Dir(name)
	err := renameio.WriteFile(name, data, mode, renameio.WithTempDir(folder), renameio.WithStaticPermissions(mode))
	if err != nil {
		return err
	}
	dir, err := os.Open(folder)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
