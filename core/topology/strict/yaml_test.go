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
		{"name: a\nbook: []\n", `line 2 column 1: unknown field "book"`},
		{"name: [a]\n", "line 1 column 7: cannot unmarshal"},
		{"name: a\n  b: c\n", "line "},
		{"books: " + strings.Repeat("[", 70), "line 1: nested more than 64 deep"},
	} {
		var s shelf
		err := YAML([]byte(c.text), &s)
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
		if err := YAML(text, &s); err != nil && strings.Contains(err.Error(), "\n") {
			t.Errorf("more than one line: %v", err)
		}
		var list []shelf
		YAML(text, &list)
	})
}
