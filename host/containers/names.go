package containers

import (
	"encoding/json"
	"io"
	"io/fs"
	"strings"
	"time"

	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
)

// lists is those of Podman, below storage: its storage driver names the folder.
var lists = func() (files []string) {
	for _, driver := range []string{"overlay", "btrfs", "zfs", "vfs"} {
		files = append(files, storage+driver+"-containers/containers.json",
			storage+driver+"-containers/volatile-containers.json")
	}
	return files
}()

const (
	docker  = "var/lib/docker/containers/"
	storage = "var/lib/containers/storage/"
	// Files larger than these are not read: Docker's are some KiB, Podman's lists a KiB for each container.
	mostDocker, mostPodman = 1 << 20, 16 << 20
	// again is how soon it is looked anew for a name that was not found: engines write the
	// files before the first process starts.
	again = 10 * time.Second
	// kept bounds how many names are remembered.
	kept = 4096
)

// Names finds names. It is for one goroutine at a time.
type Names struct {
	fsys  fs.FS
	now   func() time.Time
	known map[string]known
	lists map[string]*list
}

type known struct {
	name string
	at   time.Time // of the look
}

// list is a file of Podman's as it was read.
type list struct {
	changed time.Time
	size    int64
	names   map[string]string
}

// New finds names in the file tree of a machine; now is nil for the time.
func New(fsys fs.FS, now func() time.Time) *Names {
	if now == nil {
		now = time.Now
	}
	return &Names{topology.Plain(fsys), now, map[string]known{}, map[string]*list{}}
}

// Of is the name of the container with a full ID; "" when nothing tells.
func (n *Names) Of(id string) string {
	if k, ok := n.known[id]; ok && (k.name != "" || n.now().Sub(k.at).Abs() < again) {
		return k.name
	}
	if len(n.known) >= kept {
		clear(n.known)
	}
	name := n.docker(id)
	for _, file := range lists {
		if name == "" {
			name = n.list(file)[id]
		}
	}
	n.known[id] = known{name, n.now()}
	return name
}

func (n *Names) docker(id string) string {
	var c struct{ ID, Name string }
	if strings.ContainsAny(id, "/.") || n.read(docker+id+"/config.v2.json", mostDocker, &c) != nil || c.ID != id {
		return ""
	}
	return called(strings.TrimPrefix(c.Name, "/"))
}

// list is the names in a file of Podman's, read anew when it has changed.
func (n *Names) list(file string) map[string]string {
	info, err := fs.Stat(n.fsys, file)
	if err != nil {
		delete(n.lists, file)
		return nil
	}
	if l := n.lists[file]; l != nil && l.changed.Equal(info.ModTime()) && l.size == info.Size() {
		return l.names
	}
	var all []struct {
		ID    string
		Names []string
	}
	l := &list{info.ModTime(), info.Size(), map[string]string{}}
	if n.read(file, mostPodman, &all) == nil {
		for _, c := range all {
			if len(c.Names) > 0 {
				l.names[c.ID] = called(c.Names[0])
			}
		}
	}
	n.lists[file] = l
	return l.names
}

func (n *Names) read(file string, most int64, into any) error {
	f, err := n.fsys.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	return json.NewDecoder(io.LimitReader(f, most)).Decode(into)
}

// called is a name as it may be shown: engines allow 64 letters and more, never these many.
func called(name string) string {
	if len(name) > 253 {
		return ""
	}
	return words.Printable(name)
}
