package words

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "write the golden file anew")

// example is values for every place of a sentence, so that it reads as it will.
func example(sentence string) []any {
	var args []any
	for _, part := range strings.Split(sentence, "{")[1:] {
		kind, _, _ := strings.Cut(part, "}")
		noun, counts := strings.CutPrefix(kind, "n ")
		switch {
		case counts:
			args = append(args, 1+len(noun)%3)
		case strings.Contains(kind, "|"):
		case kind == "":
			args = append(args, "X")
		case kind == "size":
			args = append(args, 3<<19)
		case kind == "bytes":
			args = append(args, 3<<29)
		case kind == "nodes", kind == "cpus":
			args = append(args, "0-1")
		case kind == "for", kind == "seconds":
			args = append(args, 90*time.Second)
		case kind == "list", kind == "and", kind == "more":
			args = append(args, []string{"A", "B", "C"})
		default:
			args = append(args, 0.75)
		}
	}
	return args
}

// TestSentences is the one place that compares sentences, to be read when it changes.
func TestSentences(t *testing.T) {
	var b strings.Builder
	for _, code := range slices.Sorted(maps.Keys(sentences)) {
		r := Because(code, example(sentences[code])...)
		fmt.Fprintf(&b, "%s: %s\n", code, r)
		if s := r.String(); strings.ContainsAny(s, "{}?") || strings.Contains(s, "NaN") || strings.Contains(s, "%s") || strings.Contains(s, "%d") {
			t.Errorf("%s: %q has a place without a value", code, s)
		}
	}
	const golden = "testdata/sentences.golden"
	if *update {
		if err := os.WriteFile(golden, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil || string(want) != b.String() {
		t.Errorf("the sentences are not those of %s (%v); with -update it is written anew:\n%s", golden, err, b.String())
	}
}

type stringer struct{}

func (stringer) String() string { return "0-3,8" }

// A reason that was read back makes the same sentence, and the same JSON.
func TestJSON(t *testing.T) {
	type id string
	type kib int64
	reasons := []Reason{
		{},
		Plain("As it stands: {} %d."),
		Because(HomeKept, stringer{}),
		Because(NodeLacks, 3, []Reason{Because(FreeCPUs, 2), Because(Memory, kib(3<<19))}),
		Because(SplitAs, []Reason{Because(NodeShare, uint8(1), []Reason{Because(VCPUs, 2.0), Because(VCPUs, 1.5)})}, 2.0),
		Because(SplitAs, []Reason(nil), math.Inf(1)),
		Because(UnknownDevice, []id{"eth0", "<&>"}),
		Because(BestRejected, Because(KeptIdle, 2), 3, Because(Change, id("move"), []Reason{Because(ChangeHome, "a", "0", "1")}), Because(MovePending)),
		Because(Resting, 1, 90*time.Second),
		Because(OwnPolicy, errors.New("bind:0")),
		Because(DoesNotPay, 1e18, 1.5e9, 2e21, 2.0),
	}
	for code, sentence := range sentences {
		reasons = append(reasons, Because(code, example(sentence)...))
	}
	for _, r := range reasons {
		text, err := json.Marshal(r)
		if err != nil {
			t.Fatalf("%s: %v", r, err)
		}
		var back Reason
		if err := json.Unmarshal(text, &back); err != nil || back.String() != r.String() || !back.Equal(r) {
			t.Errorf("%s\nread back: %q, %v; want %q", text, back, err, r)
		}
		if again, err := json.Marshal(back); err != nil || string(again) != string(text) {
			t.Errorf("%s\nwritten again: %s %v", text, again, err)
		}
	}
}

// Versions before codes wrote sentences; later ones may have codes unknown here.
func TestOtherVersions(t *testing.T) {
	for text, want := range map[string]string{
		`"A sentence."`: "A sentence.", `""`: "", `null`: "",
		`{"code":"from-tomorrow","text":"As it will be.","args":[1,"x",{"code":"also","args":[]}]}`: "As it will be.",
		// Fewer values than the sentence takes now: the recorded sentence, also where a part lacks them.
		`{"code":"home-kept","text":"As it was.","args":[]}`:                                           "As it was.",
		`{"code":"home-kept","args":[]}`:                                                               "Its home is ? and still has room for it.",
		`{"code":"best-node","text":"As it was.","args":[2,8,{"code":"best-balance","args":[0.5,2]}]}`: "As it was.",
		`{"code":"best-node","text":"As it was.","args":[2,8,{"code":"best-equal","args":[3]}]}`:       "Node 2 is the best of 8 nodes that have room for all of it: node 3 scores the same; the first one is taken.",
	} {
		var r Reason
		if err := json.Unmarshal([]byte(text), &r); err != nil || r.String() != want {
			t.Errorf("%s: %q, %v; want %q", text, r, err, want)
		}
		if strings.Contains(text, "tomorrow") {
			if again, _ := json.Marshal(r); !strings.Contains(string(again), `"text":"As it will be."`) || r.Code != "from-tomorrow" {
				t.Errorf("%s becomes %s", text, again)
			}
		}
	}
	var r Reason
	for _, bad := range []string{`1`, `[]`, `{"args":{}}`, `{"args":[[1,]]}`} {
		if err := json.Unmarshal([]byte(bad), &r); err == nil {
			t.Errorf("%s is read as %+v", bad, r)
		}
	}
}

// TestCodesOfBefore: codes that had offline in their names are read as those of now, also within
// another reason; the sentence is that of now.
func TestCodesOfBefore(t *testing.T) {
	for was, now := range before {
		if sentences[now] == "" || sentences[was] != "" || strings.Contains(string(now), "offline") {
			t.Errorf("%s became %s", was, now)
		}
		var r Reason
		text := fmt.Sprintf(`{"code": "text", "args": [{"code": %q, "text": "Offline work …", "args": ["0-3"]}]}`, was)
		if err := json.Unmarshal([]byte(text), &r); err != nil || r.Args[0].(Reason).Code != now || strings.Contains(r.String(), "Offline") {
			t.Errorf("%s: %v, %v", was, r, err)
		}
		var event struct{ Code Code }
		if err := json.Unmarshal(fmt.Appendf(nil, `{"code": %q}`, was), &event); err != nil || event.Code != now {
			t.Errorf("an event of %s: %v, %v", was, event, err)
		}
	}
	if len(before) != 6 {
		t.Errorf("%d codes", len(before))
	}
}

func TestSize(t *testing.T) {
	for kib, want := range map[int64]string{
		0: "0 KiB", 1023: "1023 KiB", 1024: "1 MiB", 1536: "1.5 MiB", 1 << 20: "1 GiB", 10<<20 + 1<<18: "10.2 GiB", 1<<30 + 1<<29: "1.5 TiB", 5 << 40: "5120 TiB",
		-1: "an unknown amount of memory", 1 << 50: "an unknown amount of memory",
	} {
		if got := Size(kib); got != want {
			t.Errorf("%d KiB is %q, want %q", kib, got, want)
		}
	}
	if got := Bytes(int64(512)) + " " + Bytes(int64(2<<30)); got != "512 bytes 2 GiB" {
		t.Error(got)
	}
}

func TestCount(t *testing.T) {
	for _, tt := range []struct{ got, want string }{
		{Count(1, "node"), "1 node"}, {Count(0, "node"), "0 nodes"}, {Count(2, "entry|entries"), "2 entries"}, {Count(1, "entry|entries"), "1 entry"},
		{Count(3, "CPU on free whole cores"), "3 CPUs on free whole cores"}, {Count(1.5, "vCPU"), "1.5 vCPUs"}, {Count(1.0, "vCPU"), "1 vCPU"},
		{Count(1234567, "step"), "1234567 steps"}, {Count(2.0/3, "vCPU"), "0.6667 vCPUs"},
		{List([]string{"a"}), "a"}, {List([]string{"a", "b"}), "a and b"}, {List([]string{"a", "b", "c"}), "a, b and c"}, {List[string](nil), ""},
		{Nodes(stringer{}), "nodes 0-3,8"}, {CPUs(stringer{}), "CPUs 0-3,8"},
	} {
		if tt.got != tt.want {
			t.Errorf("%q, want %q", tt.got, tt.want)
		}
	}
}

// TestHome: a home is its nodes and the caches that it is confined to.
func TestHome(t *testing.T) {
	for _, c := range []struct{ nodes, caches, home, within string }{
		{"1", "3", "1, cache 3", "node 1, cache 3"},
		{"1", "2-3", "1, caches 2-3", "node 1, caches 2-3"},
		{"0-1", "2,5", "0-1, caches 2,5", "nodes 0-1, caches 2,5"},
		{"1", "", "1", "node 1"},
		{"", "", "", "no node"},
	} {
		if got := Home(c.nodes, c.caches); got != c.home {
			t.Errorf("Home(%q, %q) is %q, want %q", c.nodes, c.caches, got, c.home)
		}
		if got := HomeNodes(c.nodes, c.caches); got != c.within {
			t.Errorf("HomeNodes(%q, %q) is %q, want %q", c.nodes, c.caches, got, c.within)
		}
	}
}
