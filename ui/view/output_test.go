package view

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/homenode/homenode/core/words"
)

func none(string) string { return "" }

// R9: names are made by whoever owns them.
func TestOutputLetsNoControlThrough(t *testing.T) {
	for in, want := range map[string]string{
		"plain\tand\nlines ü 漢 █": "plain\tand\nlines ü 漢 █",
		"\x1b[2J\x1b[31mred":      `\x1b[2J` + "\x1b[31mred", // a colour is the program's own
		"\x1b[8mhidden\x1b[0m":    `\x1b[8mhidden` + "\x1b[0m",
		"\x1b]52;c;aGk=\a":        `\x1b]52;c;aGk=\x07`,
		"\x1b[38;2;1;2;3mx":       "\x1b[38;2;1;2;3mx",
		"\x1b[38;2;1;2;3;4mx":     `\x1b[38;2;1;2;3;4mx`,
		"\u009b2J":                `\xc2\x9b2J`,
		"\x9b2J":                  `\x9b2J`,
		"a\u202eb\u2066c\u2069":   `a\xe2\x80\xaeb\xe2\x81\xa6c\xe2\x81\xa9`,
		"a\u200bb\U000e0041":      `a\xe2\x80\x8bb\xf3\xa0\x81\x81`,
		"over\rwritten":           `over\x0dwritten`,
		"\x7f\x00\xff":            `\x7f\x00\xff`,
		"ends in \x1b[3":          `ends in \x1b[3`,
		"ends in \xe6\xbc":        `ends in \xe6\xbc`,
	} {
		var whole, bytewise strings.Builder
		o := NewOutput(&whole, none)
		n, err := io.WriteString(o, in)
		if err := errors.Join(err, o.Close()); n != len(in) || err != nil {
			t.Errorf("%q: wrote %d, %v", in, n, err)
		}
		if whole.String() != want {
			t.Errorf("%q: %q, want %q", in, whole.String(), want)
		}
		o = NewOutput(&bytewise, none)
		for i := range len(in) {
			io.WriteString(o, in[i:i+1])
		}
		if o.Close(); bytewise.String() != want {
			t.Errorf("%q in bytes: %q, want %q", in, bytewise.String(), want)
		}
	}
}

func TestMarkup(t *testing.T) {
	if got := Markup("<a \x1b>"); got != `&lt;a \x1b&gt;` {
		t.Errorf("markup: %q", got)
	}
}

func TestPlainAllIsACopy(t *testing.T) {
	type id string
	type inner struct {
		Name id
		Any  []any
		At   time.Time
	}
	type outer struct {
		List []inner
		Map  map[id]*inner
		None *inner
	}
	const bad, good = "x\x1b", `x\x1b`
	now := time.Now()
	in := outer{List: []inner{{bad, []any{bad, 1, nil}, now}}, Map: map[id]*inner{bad: {Name: bad}}}
	got := PlainAll(in)
	if x := got.List[0]; x.Name != good || x.Any[0] != good || x.Any[1] != 1 || !x.At.Equal(now) || got.Map[good].Name != good || got.None != nil {
		t.Errorf("%+v", got)
	}
	if in.List[0].Name != bad || in.List[0].Any[0] != bad || in.Map[bad].Name != bad {
		t.Errorf("changed: %+v", in)
	}
}

func TestDocumentsMeanTheSame(t *testing.T) {
	const name = "a\u009b\u202e\U000e0041 ü\x1b"
	var out strings.Builder
	if err := json.NewEncoder(JSON(&out)).Encode(name); err != nil {
		t.Fatal(err)
	}
	var back string
	if err := json.Unmarshal([]byte(out.String()), &back); err != nil || back != name || words.Printable(strings.TrimSpace(out.String())) != strings.TrimSpace(out.String()) {
		t.Errorf("%s: %q, %v", out.String(), back, err)
	}
	out.Reset()
	io.WriteString(XML(&out), "<a>\u009b\u202e</a>")
	if out.String() != "<a>&#x9b;&#x202e;</a>" {
		t.Error(out.String())
	}
}

// A full disk is an error; a reader that stopped reading is none.
func TestOutputRemembersItsError(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip(err)
	}
	defer full.Close()
	o := NewOutput(full, none)
	o.Raw().Write([]byte("x"))
	io.WriteString(o, "x")
	if o.Err() == nil || strings.Contains(o.Err().Error(), "/dev/full") {
		t.Errorf("got %v", o.Err())
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	r.Close()
	defer w.Close()
	o = NewOutput(w, none)
	if _, err := io.WriteString(o, "x"); err == nil || o.Err() != nil {
		t.Errorf("broken pipe: %v, %v", err, o.Err())
	}
}

// A frame that is kept before it is shown is folded as the terminal would, not broken by it.
func TestOutputWithin(t *testing.T) {
	var frame strings.Builder
	o := NewOutput(&frame, func(string) string { return "" }).Within(20)
	fmt.Fprintln(o, "locality: no counters on this machine")
	o.Close()
	for _, line := range strings.Split(frame.String(), "\n") {
		if len(line) > 20 {
			t.Errorf("line of %d columns: %q", len(line), line)
		}
	}
}
