package topology

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"io/fs"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"
)

func diff(a, b *Host, ignore ...string) string {
	opts := []cmp.Option{cmpopts.EquateEmpty()}
	if len(ignore) > 0 {
		opts = append(opts, cmpopts.IgnoreFields(Host{}, ignore...))
	}
	return cmp.Diff(a, b, opts...)
}

func TestSysfsRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := anyHost(t)
		got, err := FromSysfs(fakeTree(want))
		if err != nil {
			t.Fatal(err)
		}
		for i := range want.Nodes {
			want.Nodes[i].Type, want.Nodes[i].Evidence = got.Nodes[i].Type, got.Nodes[i].Evidence
		}
		if d := diff(want, got, "Notes"); d != "" {
			t.Fatalf("written and read (-want +got):\n%s", d)
		}
	})
}

func TestJSONRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want, err := FromSysfs(fakeTree(anyHost(t)))
		if err != nil {
			t.Fatal(err)
		}
		if rapid.Bool().Draw(t, "measured") {
			n := len(want.Nodes)
			want.Measured = &Measured{LatencyNs: make([][]float64, n), BandwidthMiBs: make([][]float64, n)}
			for i := range n {
				want.Measured.LatencyNs[i] = rapid.SliceOfN(rapid.Float64Range(0, 1000), n, n).Draw(t, "ns")
				want.Measured.BandwidthMiBs[i] = rapid.SliceOfN(rapid.Float64Range(0, 1e6), n, n).Draw(t, "MiB/s")
			}
		}
		var lines bytes.Buffer
		if err := want.WriteJSON(&lines); err != nil {
			t.Fatal(err)
		}
		short, err := json.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range []string{lines.String(), string(short)} {
			var got Host
			if err := json.Unmarshal([]byte(text), &got); err != nil {
				t.Fatalf("%v\n%s", err, text)
			}
			if d := diff(want, &got); d != "" {
				t.Fatalf("written and read (-want +got):\n%s", d)
			}
		}
	})
}

func TestCaptureRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := anyHost(t)
		direct, err := FromSysfs(fakeTree(want))
		if err != nil {
			t.Fatal(err)
		}
		got, err := FromSysfs(unpacked(t, fakeTree(want)))
		if err != nil {
			t.Fatal(err)
		}
		for i := range want.Nodes { // how it is known is TestMemoryTypes
			want.Nodes[i].Type, want.Nodes[i].Evidence = direct.Nodes[i].Type, direct.Nodes[i].Evidence
		}
		if d := diff(want, got, "Notes"); d != "" {
			t.Fatalf("captured and read (-want +got):\n%s", d)
		}
	})
}

// unpacked captures a tree into a tar and opens that.
func unpacked(t rapid.TB, fsys fs.FS) fs.FS {
	t.Helper()
	leaves, err := Capture(fsys)
	if err != nil {
		t.Fatal(err)
	}
	out, err := OpenCapture(tar.NewReader(bytes.NewReader(packed(t, leaves))))
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func packed(t rapid.TB, leaves []Leaf) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, l := range leaves {
		head := &tar.Header{Typeflag: tar.TypeReg, Name: l.Name, Size: int64(len(l.Data)), Mode: 0o444}
		if l.Link != "" {
			head = &tar.Header{Typeflag: tar.TypeSymlink, Name: l.Name, Linkname: l.Link}
		}
		if err := w.WriteHeader(head); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(l.Data); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestReadFree(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		before := anyHost(t)
		host, err := FromSysfs(fakeTree(before))
		if err != nil {
			t.Fatal(err)
		}
		now := *before
		now.Nodes = append([]Node(nil), before.Nodes...)
		for i := range now.Nodes {
			n := &now.Nodes[i]
			if n.Memory > 0 {
				n.Free = KiB(rapid.Int64Range(0, int64(n.Memory)).Draw(t, "free"))
			}
			n.HugePages = append([]HugePool(nil), n.HugePages...)
			for k := range n.HugePages {
				n.HugePages[k].Total++
			}
		}
		if rapid.Bool().Draw(t, "a CPU goes") && now.Online.Len() > 1 {
			now = *without(&now, now.Cores[0].CPUs.Min())
		}
		tree := fakeTree(&now)
		want, err := FromSysfs(tree)
		if err != nil {
			t.Fatal(err)
		}
		old := diff(host, host)
		got, err := ReadFree(tree, host)
		if err != nil {
			t.Fatal(err)
		}
		if d := diff(want, got); d != "" {
			t.Fatalf("read anew and refreshed (-anew +refreshed):\n%s", d)
		}
		if diff(host, host) != old {
			t.Fatal("the host that was handed in changed")
		}
	})
}

// without is h with one CPU offline.
func without(h *Host, cpu CPUID) *Host {
	out := *h
	gone := CPUs(cpu)
	out.Online, out.Offline, out.Allowed = h.Online.Minus(gone), h.Offline.Union(gone), h.Allowed.Minus(gone)
	if out.Allowed.Empty() {
		out.Allowed = out.Online
	}
	out.Cores, out.LLCs, out.Packages, out.Nodes = nil, nil, nil, append([]Node(nil), h.Nodes...)
	for _, c := range h.Cores {
		if c.CPUs = c.CPUs.Minus(gone); !c.CPUs.Empty() {
			out.Cores = append(out.Cores, c)
		}
	}
	for _, l := range h.LLCs {
		if l.CPUs = l.CPUs.Minus(gone); !l.CPUs.Empty() {
			out.LLCs = append(out.LLCs, l)
		}
	}
	for i := range out.Nodes {
		out.Nodes[i].CPUs = out.Nodes[i].CPUs.Minus(gone)
	}
	return &out
}

func TestReadFreeKeepsMeasured(t *testing.T) {
	h := mustSynthetic(t, "package:2 core:2")
	tree := fakeTree(h)
	host, err := FromSysfs(tree)
	if err != nil {
		t.Fatal(err)
	}
	host.Measured = &Measured{LatencyNs: [][]float64{{90}}}
	tree[cpuDir+"/online"] = &fstest.MapFile{Data: []byte("0-2\n")}
	got, err := ReadFree(tree, host)
	if err != nil {
		t.Fatal(err)
	}
	if got.Measured != host.Measured || got.Online.Len() != 3 {
		t.Errorf("measured %v, online %s", got.Measured, got.Online)
	}
}

func mustSynthetic(t testing.TB, text string) *Host {
	t.Helper()
	h, err := FromSynthetic(text)
	if err != nil {
		t.Fatal(err)
	}
	return h
}
