package main

import (
	"bytes"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// driver is where the driver for Kubernetes is, in its image.
const driver = "/usr/bin/homenode-kube"

// kubeFiles is what the image for Kubernetes has beside homenode, by path.
func kubeFiles(stage, arch string) ([]file, error) {
	program, err := os.ReadFile(filepath.Join(stage, "homenode-kube."+arch))
	if err != nil {
		return nil, err
	}
	notices, err := os.ReadFile(filepath.Join(stage, "NOTICES.kube"))
	return []file{{driver, 0o755, program}, {"/usr/share/doc/homenode-kube/NOTICES", 0o644, notices}}, err
}

// images writes the container images: the program, its licence and the notices, on nothing
// else; and for Kubernetes the same with the driver beside it. podman load, docker load (25 or
// later), ctr images import and skopeo read them.
func (r *release) images(trees, drivers map[string][]file) error {
	alone, both := map[string][]file{}, map[string][]file{}
	for arch, tree := range trees {
		alone[arch] = []file{named(tree, program), named(tree, "/usr/share/doc/homenode/LICENSE"),
			named(tree, "/usr/share/doc/homenode/NOTICES")}
		both[arch] = slices.Concat(alone[arch], drivers[arch])
	}
	if err := r.image("homenode", "homenode", alone,
		v1.Config{Entrypoint: []string{program}, Cmd: []string{"status"}}); err != nil ||
		len(drivers) == 0 {
		return err
	}
	// The name is written out as the kubelet does: an image that was imported is found by it.
	return r.image("homenode-kube", "docker.io/library/homenode-kube", both, v1.Config{Entrypoint: []string{driver}})
}

// image writes one for all architectures.
func (r *release) image(name, full string, files map[string][]file, config v1.Config) error {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, arch := range architectures {
		img, err := r.imageFor(name, arch, files[arch], config)
		if err != nil {
			return err
		}
		index = mutate.AppendManifests(index,
			mutate.IndexAddendum{Add: img,
				Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: arch}}})
	}
	dir, err := os.MkdirTemp("", "homenode-image")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	l, err := layout.Write(dir, empty.Index)
	if err != nil {
		return err
	}
	tag := r.semantic()
	if err := l.AppendIndex(index, layout.WithAnnotations(map[string]string{
		"org.opencontainers.image.ref.name": tag, "io.containerd.image.name": full + ":" + tag,
	})); err != nil {
		return err
	}
	var all []file
	err = filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(name)
		rel, _ := filepath.Rel(dir, name)
		all = append(all, file{rel, 0o644, data})
		return err
	})
	if err != nil {
		return err
	}
	slices.SortFunc(all, func(a, b file) int { return strings.Compare(a.path, b.path) })
	var b bytes.Buffer
	if err := tarOf(&b, all, r.time); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(r.out, name+"-"+r.version+"-oci.tar"), b.Bytes(), 0o644)
}

func (r *release) imageFor(name, arch string, files []file, does v1.Config) (v1.Image, error) {
	var b bytes.Buffer
	if err := tarOf(&b, files, r.time); err != nil {
		return nil, err
	}
	layer,
		err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(b.Bytes())),
			nil
	}, tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return nil, err
	}
	img, err := mutate.Append(mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1),
		types.OCIConfigJSON),
		mutate.Addendum{Layer: layer, History: v1.History{Created: v1.Time{Time: r.time}, CreatedBy: "make dist"}})
	if err != nil {
		return nil, err
	}
	config, err := img.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS = "linux"
	config.Architecture = arch
	config.Created = v1.Time{Time: r.time}
	config.Config = does
	config.Config.Env = []string{"PATH=/usr/bin"}
	config.Config.Labels = map[string]string{
		"org.opencontainers.image.title": name, "org.opencontainers.image.version": r.version,
		"org.opencontainers.image.licenses": "Apache-2.0",
		"org.opencontainers.image.source":   "https://github.com/homenode/homenode",
	}
	return mutate.ConfigFile(img, config)
}
