package strict

import (
	"strings"
	"testing"
)

type shelf struct {
	Name  string `yaml:"name"`
	Books []struct {
		Title string `yaml:"title"`
	} `yaml:"books"`
}

func TestYAML(t *testing.T) {
	for _, c := range []struct{ text, err string }{
		{"", ""},
		{"# nothing but a remark\n", ""},
		{"name: a\nbooks: [{title: b}]\n", ""},
		{"name: a\nbook: []\n", `line 2 column 1: unknown key "book"; did you mean books?`},
		{"name: a\nshelf: []\n", `line 2 column 1: unknown key "shelf"; known are name, books`},
		{"name: a\n  books: []\n", `line 2 column 3: books is indented too far: line 1 above it has a value already`},
		{"# x\n\nname: a\n  # y\n    books: []\n", `line 5 column 5: this does not line up with what is above it; mend the indentation`},
		{"name: a\n\tbooks: []\n", `line 2 column 1: a tab; indent with spaces`},
		{"name: a\nbooks:\n\t- title: b\n", `line 3 column 1: a tab; indent with spaces`},
		{"name: a: b\n", `line 1 column 7: a second colon in one line; text with a colon goes in quotes`},
		{"- a\nname: b\n", `line 2 column 1: this does not line up with what is above it; mend the indentation`},
		{"name: a\nbooks\nname: b\n", `line 2 column 1: books`},
		{"name:a\n", `line 1 column 1: name:a; want a space after the colon`},
		{"name: \"a\nbooks: []\n", `line 1 column 7: could not find end character of double-quoted text`},
		{"name: a\nbooks: [a, b\n", `line 2 column `},
		{"name:\nbooks: null\n", ""},
		{"name: ~\n", ""},
		{"books: [null]\n", "line 1 column 9: books[0]: no value; write one or remove the entry"},
		{"books:\n- title: a\n-\n", "line 3 column 3: books[1]: no value; write one or remove the entry"},
		{"name: [a]\n", "line 1 column 7: name: [a]; want one word or text"},
		{"{name: [0000:00:06.0]}\n", "line 1 column 8: name: [ 0000: 00:06.0]; want one word or text; text with a colon goes in quotes"},
		{"name: a\n---\nname: b\n", "line 3 column 5: a second document"},
		{"name: a\n  b: c\n", "line "},
		{"books: " + strings.Repeat("[", 70), "line 1: nested more than 64 deep"},
	} {
		var s shelf
		_, err := YAML([]byte(c.text), &s, nil)
		if c.err == "" {
			if err != nil {
				t.Errorf("%q: %v", c.text, err)
			}
			continue
		}
		if err == nil || !strings.HasPrefix(err.Error(), c.err) {
			t.Errorf("%q: %v, want %s", c.text, err, c.err)
		}
	}
}

// The library panics on some text that is no YAML; nobody may see that.
func FuzzYAML(f *testing.F) {
	f.Add([]byte("name: a\nbooks: [{title: b}]\n"))
	f.Add([]byte("books: ! 0"))
	f.Add([]byte("! 0"))
	f.Fuzz(func(t *testing.T, text []byte) {
		var s shelf
		if _, err := YAML(text, &s, nil); err != nil && strings.Contains(err.Error(), "\n") {
			t.Errorf("more than one line: %v", err)
		}
		var list []shelf
		YAML(text, &list, nil)
	})
}
