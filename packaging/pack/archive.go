package main

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// tarOf writes files with their folders; all belong to root and are of one time.
func tarOf(w io.Writer, files []file, at time.Time) error {
	t := tar.NewWriter(w)
	var paths []string
	for _, f := range files {
		paths = append(paths, strings.TrimPrefix(f.path, "/"))
	}
	for _, d := range folders(paths) {
		if err := t.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: d + "/", Mode: 0o755, ModTime: at,
			Format: tar.FormatPAX}); err != nil {
			return err
		}
	}
	for i, f := range files {
		h := &tar.Header{Typeflag: tar.TypeReg, Name: paths[i], Mode: int64(f.mode), Size: int64(len(f.data)),
			ModTime: at, Format: tar.FormatPAX}
		if err := t.WriteHeader(h); err != nil {
			return err
		}
		if _, err := t.Write(f.data); err != nil {
			return err
		}
	}
	return t.Close()
}

// archive is for systems without deb and rpm: one folder whose bin, lib and share go to
// /usr/local as they are.
func (r *release) archive(arch string, tree []file) error {
	top := fmt.Sprintf("homenode-%s-linux-%s", r.version, arch)
	readme, err := os.ReadFile(filepath.Join(r.source, "README.md"))
	if err != nil {
		return err
	}
	files := []file{{top + "/README.md", 0o644, readme}}
	for _, f := range tree {
		f.path = top + "/" + strings.TrimPrefix(strings.TrimPrefix(f.path, "/usr"), "/")
		if strings.HasSuffix(f.path, ".service") {
			f.data = bytes.ReplaceAll(f.data, []byte(program), []byte("/usr/local/bin/homenode"))
		}
		files = append(files, f)
	}
	var b bytes.Buffer
	if err := tarOf(&b, files, r.time); err != nil {
		return err
	}
	z, err := zipped(b.Bytes())
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(r.out, top+".tar.gz"), z, 0o644)
}

// binary writes the program by itself: for a look at a machine where nothing is to be installed.
func (r *release) binary(arch string, tree []file) error {
	name := fmt.Sprintf("homenode-%s-linux-%s", r.version, arch)
	return os.WriteFile(filepath.Join(r.out, name), named(tree, program).data, 0o755)
}

// sums writes SHA256SUMS of all that was made.
func (r *release) sums() error {
	entries, err := os.ReadDir(r.out)
	if err != nil {
		return err
	}
	var b strings.Builder
	for _, e := range entries {
		if e.IsDir() || e.Name() == "SHA256SUMS" {
			continue
		}
		data, err := os.ReadFile(filepath.Join(r.out, e.Name()))
		if err != nil {
			return err
		}
		fmt.Fprintf(&b, "%x  %s\n", sha256.Sum256(data), e.Name())
	}
	return os.WriteFile(filepath.Join(r.out, "SHA256SUMS"), []byte(b.String()), 0o644)
}
