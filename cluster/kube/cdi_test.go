package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	cdi "tags.cncf.io/container-device-interface/specs-go"
)

// What is written says a version of CDI that has what is in it, or no runtime takes it: names
// that begin with a digit, as most UIDs do, are of a later one.
func TestCDIVersion(t *testing.T) {
	for _, uid := range []types.UID{"1966114d-4172-4858-85fb-8c728847cf13", "b966114d-4172-4858-85fb-8c728847cf13"} {
		d := cdiFolder(t.TempDir())
		if err := d.write(&claim{UID: uid, Bookings: []booking{{ID: "claim:x/0", Request: "home"}}}); err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(filepath.Join(string(d), "homenode.io-claim-"+string(uid)+".json"))
		if err != nil {
			t.Fatal(err)
		}
		var spec cdi.Spec
		if err := json.Unmarshal(data, &spec); err != nil {
			t.Fatal(err)
		}
		if err := cdi.ValidateVersion(&spec); err != nil {
			t.Errorf("%s: %v", uid, err)
		}
	}
}
