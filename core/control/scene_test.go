package control

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/homenode/homenode/core/control/scene"
)

// TestCheckpointIsFlat: what is recorded of the scene lies beside the rest, as in recordings of earlier versions.
func TestCheckpointIsFlat(t *testing.T) {
	f := newFake(t, 2, 8, surveying(Links))
	f.add("web", 1, 1<<20, 0)
	f.claimedScan(boundBy("vm:a", "/web"))
	keys := map[string]json.RawMessage{}
	err := json.Unmarshal(f.s.Checkpoint(), &keys)
	if err != nil {
		t.Fatal(err)
	}
	fields, seen := reflect.TypeFor[scene.Scene](), 0
	for i := range fields.NumField() {
		x := fields.Field(i)
		if !x.IsExported() || x.Tag.Get("json") == "-" {
			continue
		}
		seen++
		if keys[x.Name] == nil {
			t.Errorf("%s is not in the checkpoint", x.Name)
		}
	}
	if seen < 15 || keys["Scene"] != nil {
		t.Errorf("%d fields; the scene as a whole: %.80s", seen, keys["Scene"])
	}
}
