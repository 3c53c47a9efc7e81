package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/goreleaser/nfpm/v2"
	_ "github.com/goreleaser/nfpm/v2/deb"
	"github.com/goreleaser/nfpm/v2/files"
	_ "github.com/goreleaser/nfpm/v2/rpm"
)

// packages makes the deb and the rpm.
func (r *release) packages(arch string, tree []file) error {
	for _, kind := range []string{"deb", "rpm"} {
		if err := r.onePackage(kind, arch, tree); err != nil {
			return fmt.Errorf("%s: %w", kind, err)
		}
	}
	return nil
}

// place is where a file belongs on systems of that kind; what they keep packed is packed.
func place(kind string, f file) (file, error) {
	var err error
	switch {
	case strings.HasPrefix(f.path, "/usr/share/man/"):
		f.path += ".gz"
		f.data, err = zipped(f.data)
	case kind == "deb" && f.path == "/usr/share/doc/homenode/LICENSE":
		f.path = "/usr/share/doc/homenode/copyright" // Debian policy 12.5
	case kind == "deb" && strings.HasPrefix(f.path, "/usr/share/zsh/site-functions/"):
		f.path = strings.Replace(f.path, "site-functions", "vendor-completions", 1)
	}
	return f, err
}

// onePackage makes the package of one kind, deb or rpm.
func (r *release) onePackage(kind, arch string, tree []file) error {
	tmp, err := os.MkdirTemp("", "homenode-pack")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	info := nfpm.WithDefaults(&nfpm.Info{
		Name: "homenode", Arch: arch, Platform: "linux", Version: r.version, VersionSchema: "none", Release: "1",
		Section: "admin", Priority: "optional", License: "Apache-2.0", MTime: r.time,
		Maintainer: "The Homenode authors <homenode@homenode.invalid>",
		Homepage:   "https://github.com/homenode/homenode",
		Description: `a home NUMA node for every container, guest and process
Homenode gives every workload of a server a home: the NUMA node, or the few
near nodes, that hold both its CPUs and its memory. It says why for everything
it does, and can undo all of it. Until told to act it only looks.`,
		DisableGlobbing: true,
		Overridables: nfpm.Overridables{
			Suggests: map[string][]string{"deb": {"libvirt-dbus"}}[kind],
			Scripts: nfpm.Scripts{
				PostInstall: filepath.Join(r.source, "packaging/scripts/postinstall.sh"),
				PreRemove:   filepath.Join(r.source, "packaging/scripts/preremove.sh"),
				PostRemove:  filepath.Join(r.source, "packaging/scripts/postremove.sh"),
			},
			Deb: nfpm.Deb{Compression: "zstd"},
			RPM: nfpm.RPM{Compression: "zstd", BuildHost: "localhost",
				Summary: "A home NUMA node for every container, guest and process"},
		},
	})
	if info.Changelog, err = r.changelog(tmp); err != nil {
		return err
	}
	var paths []string
	for i, f := range tree {
		if f, err = place(kind, f); err != nil {
			return err
		}
		paths = append(paths, f.path)
		source := filepath.Join(tmp, fmt.Sprint(i))
		if err := os.WriteFile(source, f.data, 0o600); err != nil {
			return err
		}
		c := &files.Content{Source: source, Destination: f.path,
			FileInfo: &files.ContentFileInfo{Mode: f.mode, Owner: "root", Group: "root", MTime: r.time}}
		if strings.HasPrefix(f.path, "/etc/") {
			c.Type = files.TypeConfigNoReplace
		}
		info.Contents = append(info.Contents, c)
	}
	// Its own folders, and those of shells that may not be installed, go with it.
	for _, d := range folders(paths) {
		if d == "/usr/share/doc/homenode" || strings.HasPrefix(d, "/usr/share/homenode") ||
			strings.HasPrefix(d, "/usr/share/bash-completion") || strings.HasPrefix(d, "/usr/share/fish") ||
			strings.HasPrefix(d, "/usr/share/zsh") {
			info.Contents = append(info.Contents, &files.Content{Destination: d, Type: files.TypeDir,
				FileInfo: &files.ContentFileInfo{Mode: 0o755, Owner: "root", Group: "root", MTime: r.time}})
		}
	}
	p, err := nfpm.Get(kind)
	if err != nil {
		return err
	}
	if err := nfpm.PrepareForPackager(info, kind); err != nil {
		return err
	}
	w, err := os.Create(filepath.Join(r.out, p.ConventionalFileName(info)))
	if err != nil {
		return err
	}
	if err := p.Package(info, w); err != nil {
		w.Close()
		return err
	}
	return w.Close()
}
