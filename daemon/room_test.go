package daemon

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"testing"

	"github.com/homenode/homenode/api"
)

var update = flag.Bool("update", false, "write the golden files anew")

// TestRoomForNova: the answer that the scheduler's part (integrations/openstack) is tested with
// is the daemon's.
func TestRoomForNova(t *testing.T) {
	m := newMachine(t, 2, 4)
	m.add("a", 2, 1<<20, 1)
	r := newRig(t, m, true)
	r.ticks(1)
	room, err := r.Room(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	room.Nodes[0].HugePages = []api.HugeRoom{{SizeKiB: 2048, FreeKiB: 1 << 20}}
	got, err := json.MarshalIndent(room, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	const file = "../integrations/openstack/tests/room.json"
	if got = append(got, '\n'); *update {
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if want, err := os.ReadFile(file); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%s, %v; now\n%s", file, err, got)
	}
}
