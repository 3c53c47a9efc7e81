package main

import (
	"archive/tar"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

// made packs small trees and gives what was written by name.
func made(t *testing.T, version string) map[string]string {
	t.Helper()
	r := release{version: version, time: time.Date(2026, 11, 22, 0, 0, 0, 0, time.UTC), source: "../..", out: t.TempDir()}
	// Any small program of Go will do.
	small := t.TempDir()
	for name, text := range map[string]string{"go.mod": "module small\n", "main.go": "package main\n\nfunc main() {}\n"} {
		if err := os.WriteFile(filepath.Join(small, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	build := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-o", "small")
	build.Dir, build.Env = small, append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	binary, err := os.ReadFile(filepath.Join(small, "small"))
	if err != nil {
		t.Fatal(err)
	}
	tree := []file{
		{"/etc/homenode.yaml", 0o644, []byte("#mode: observe\n")},
		{program, 0o755, binary},
		{"/usr/lib/systemd/system/homenode.service", 0o644, []byte("ExecStart=/usr/bin/homenode daemon\n")},
		{"/usr/share/doc/homenode/LICENSE", 0o644, []byte("licence\n")},
		{"/usr/share/doc/homenode/NOTICES", 0o644, []byte("notices\n")},
		{"/usr/share/man/man1/homenode.1", 0o644, []byte(".TH\n")},
		{"/usr/share/zsh/site-functions/_homenode", 0o644, []byte("#compdef homenode\n")},
	}
	trees, drivers := map[string][]file{}, map[string][]file{}
	for _, arch := range architectures {
		trees[arch] = tree
		drivers[arch] = []file{{driver, 0o755, binary}, {"/usr/share/doc/homenode-kube/NOTICES", 0o644, []byte("notices\n")}}
		for _, err := range []error{r.archive(arch, tree), r.binary(arch, tree), r.packages(arch, tree)} {
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, err := range []error{r.images(trees, drivers), r.kubernetes(), r.inside(tree), r.notes(), r.sums()} {
		if err != nil {
			t.Fatal(err)
		}
	}
	out := map[string]string{}
	entries, err := os.ReadDir(r.out)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		b, err := os.ReadFile(filepath.Join(r.out, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		out[e.Name()] = string(b)
	}
	return out
}

// TestSameBytes: the same trees give the same bytes, all of them.
func TestSameBytes(t *testing.T) {
	const version = "0.2.0+git20261122.0915.1a2b3c4"
	a, b := made(t, version), made(t, version)
	for _, name := range []string{
		"homenode_" + version + "-1_amd64.deb", "homenode_" + version + "-1_arm64.deb",
		"homenode-" + version + "-1.x86_64.rpm", "homenode-" + version + "-1.aarch64.rpm",
		"homenode-" + version + "-linux-amd64.tar.gz", "homenode-" + version + "-linux-amd64", "homenode-" + version + "-linux-arm64", "NOTES.md", "homenode-" + version + "-oci.tar", "homenode-kube-" + version + "-oci.tar",
		"homenode-kube-" + version + ".yaml", "homenode-chart-" + version + ".tgz", "homenode-" + version + ".cdx.json", "SHA256SUMS",
	} {
		if a[name] == "" {
			t.Errorf("no %s", name)
		}
	}
	for name := range a {
		if a[name] != b[name] {
			t.Errorf("%s: not the same the second time", name)
		}
	}
	if lines := strings.Count(a["SHA256SUMS"], "\n"); lines != len(a)-1 {
		t.Errorf("%d sums of %d files", lines, len(a)-1)
	}
}

// TestImages: what was written are valid images for each architecture; the one for Kubernetes
// has both programs.
func TestImages(t *testing.T) {
	files := made(t, "0.1.0")
	every := func(v1.Descriptor) bool { return true }
	for name, want := range map[string]int{"homenode": 1, "homenode-kube": 2} {
		dir := t.TempDir()
		if err := unpack(dir, files[name+"-0.1.0-oci.tar"]); err != nil {
			t.Fatal(err)
		}
		index, err := layout.ImageIndexFromPath(dir)
		if err != nil {
			t.Fatal(err)
		}
		if err := validate.Index(index); err != nil {
			t.Error(err)
		}
		inner, err := partial.FindIndexes(index, every)
		if err != nil || len(inner) != 1 {
			t.Fatalf("%d indexes: %v", len(inner), err)
		}
		all, err := partial.FindImages(inner[0], every)
		if err != nil || len(all) != len(architectures) {
			t.Fatalf("%d images: %v", len(all), err)
		}
		programs := 0
		content := tar.NewReader(mutate.Extract(all[0]))
		for {
			h, err := content.Next()
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			if h.Typeflag == tar.TypeReg && h.Mode&0o111 != 0 {
				programs++
			}
		}
		if programs != want {
			t.Errorf("%s: %d programs", name, programs)
		}
	}
}

// TestChanges: a version of its own each, the newest first; what has no version yet is of
// the one that is made.
func TestChanges(t *testing.T) {
	r := release{version: "0.2.0+git1", time: time.Unix(0, 0)}
	got, err := r.changes("# Changelog\n\n## Unreleased\n\n### Added\n\n- one `thing`,\n  told in two lines\n\n## 0.1.0 (2026-11-22)\n\n- two\n")
	if err != nil || len(got) != 2 || got[0].Semver != "0.2.0+git1" || got[1].Semver != "0.1.0" {
		t.Fatalf("%v, %v", got, err)
	}
	if note := got[0].Changes[0].Note; note != "one thing, told in two lines" {
		t.Errorf("%q", note)
	}
	for _, bad := range []string{"", "## 0.1.0\n", "## 0.1.0 (soon)\n"} {
		if _, err := r.changes(bad); err == nil {
			t.Errorf("%q: taken", bad)
		}
	}
	// The one of this source can be read, and begins with a version.
	text, err := os.ReadFile("../../CHANGELOG.md")
	if err != nil {
		t.Fatal(err)
	}
	if got, err := r.changes(string(text)); err != nil || len(got[0].Changes) == 0 {
		t.Errorf("%v, %v", got, err)
	}
}

// TestNotes: the notes of a release are the section of its version; those of a development build
// are the first section.
func TestNotes(t *testing.T) {
	const text = "# Changelog\n\n## Unreleased\n\n- new\n\n## 0.2.0 (2026-11-24)\n\n### Added\n\n- one\n\n## 0.1.0 (2026-11-22)\n\n- two\n"
	for version, want := range map[string]string{
		"0.2.0":      "# Homenode 0.2.0\n\n### Added\n\n- one\n",
		"0.2.0+git1": "# Homenode 0.2.0+git1\n\n- new\n",
		"0.1.0":      "# Homenode 0.1.0\n\n- two\n",
	} {
		r := release{version: version}
		if got, err := r.section(text); err != nil || got != want {
			t.Errorf("%s: %q, %v", version, got, err)
		}
	}
	r := release{version: "0.3.0"}
	if got, err := r.section("# Changelog\n\n## Unreleased\n"); err == nil {
		t.Errorf("taken: %q", got)
	}
}

func unpack(dir, text string) error {
	t := tar.NewReader(strings.NewReader(text))
	for {
		h, err := t.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if h.Typeflag != tar.TypeReg {
			continue
		}
		name := filepath.Join(dir, h.Name)
		b, err := io.ReadAll(t)
		if err == nil {
			err = os.MkdirAll(filepath.Dir(name), 0o755)
		}
		if err == nil {
			err = os.WriteFile(name, b, 0o644)
		}
		if err != nil {
			return err
		}
	}
}
