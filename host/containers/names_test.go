package containers

import (
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"
	"time"
)

// Containers are called as their engine calls them; what is broken, foreign or not there leaves
// the ID.
func TestNames(t *testing.T) {
	id := func(c string) string { return strings.Repeat(c, 64) }
	at := time.Unix(1e9, 0)
	tree := fstest.MapFS{
		docker + id("a") + "/config.v2.json":                {Data: []byte(`{"ID":"` + id("a") + `","Name":"/web","Config":{}}`)},
		docker + id("b") + "/config.v2.json":                {Data: []byte(`{"ID":"` + id("b") + `","Na`)},
		docker + id("c") + "/config.v2.json":                {Data: []byte(`{"ID":"` + id("d") + `","Name":"/other"}`)},
		docker + id("d") + "/config.v2.json":                {Data: []byte(`{"ID":"` + id("d") + `","Name":"/a\u001b[31mb"}`)},
		docker + id("e") + "/config.v2.json":                {Mode: fs.ModeNamedPipe},
		storage + "overlay-containers/containers.json":      {Data: []byte(`[{"id":"` + id("1") + `","names":["db","x"]},{"id":"` + id("2") + `"}]`), ModTime: at},
		storage + "vfs-containers/volatile-containers.json": {Data: []byte(`[{"id":"` + id("3") + `","names":["job"]}]`), ModTime: at},
	}
	now := at
	n := New(tree, func() time.Time { return now })
	for c, want := range map[string]string{"a": "web", "b": "", "c": "", "d": `a\x1b[31mb`, "e": "", "f": "", "1": "db", "2": "", "3": "job"} {
		if got := n.Of(id(c)); got != want {
			t.Errorf("%s is called %q, want %q", c, got, want)
		}
	}
	if got := n.Of("../../x"); got != "" {
		t.Errorf("%q", got)
	}
	tree[storage+"overlay-containers/containers.json"] = &fstest.MapFile{Data: []byte(`[{"id":"` + id("2") + `","names":["late"]}]`), ModTime: at.Add(1)}
	if got := n.Of(id("2")); got != "" {
		t.Errorf("%q before its time", got)
	}
	now = now.Add(again)
	if got := n.Of(id("2")); got != "late" {
		t.Errorf("%q", got)
	}
}
