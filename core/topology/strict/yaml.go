package strict

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// maxNesting is far above what any of our files needs, and far below where the
// YAML parser takes minutes.
const maxNesting = 64

// YAML decodes a document into the struct that into points to, as Decode does. An
// empty document leaves it as it is.
func YAML(text []byte, into any, wants Wants) (Lines, error) {
	body, err := ParseYAML(text)
	if err != nil || body == nil {
		return nil, err
	}
	return Decode(body, into, wants)
}

// ParseYAML parses the one document of a text; nil is an empty one.
func ParseYAML(text []byte) (body ast.Node, err error) {
	if !utf8.Valid(text) || bytes.IndexByte(text, 0) >= 0 {
		return nil, errors.New("this is no text file")
	}
	if line := deepLine(text); line > 0 {
		return nil, fmt.Errorf("line %d: nested more than %d deep", line, maxNesting)
	}
	err = sane(func() error {
		file, err := parser.ParseBytes(text, 0)
		if err != nil {
			return misplaced(text, err)
		}
		for _, d := range file.Docs {
			switch {
			case d.Body == nil || d.Body.Type() == ast.NullType || d.Body.Type() == ast.CommentType:
			case body != nil:
				return fmt.Errorf("%s: a second document; one is read", Position(d.Body.GetToken()))
			default:
				body = d.Body
			}
		}
		return nil
	})
	return body, err
}

// sane makes one line with the position of what the library says, and an error
// of its panics: it has some on input that is no YAML ("! 0" for a list).
func sane(f func() error) (err error) {
	defer func() {
		if recover() != nil {
			err = errors.New("line 1: this is no YAML that can be read")
		}
	}()
	if err = f(); err == nil {
		return nil
	}
	var at yaml.Error
	if m := (mistake{}); errors.As(err, &m) {
		return m
	}
	if errors.As(err, &at) && at.GetToken() != nil {
		return fmt.Errorf("%s: %s", Position(at.GetToken()), oneLine(at.GetMessage()))
	}
	return errors.New(oneLine(err.Error()))
}

// mistake is what is wrong with a document, and where.
type mistake struct{ text string }

func (m mistake) Error() string { return m.text }

// misplaced says in the words of who writes a file what the parser says in its own, and where the mistake is:
// of a key that is indented too far the parser names the line before.
func misplaced(text []byte, err error) error {
	var at yaml.Error
	if !errors.As(err, &at) || at.GetToken() == nil || at.GetToken().Position == nil {
		return err
	}
	p := at.GetToken().Position
	lines := strings.Split(string(text), "\n")
	message := at.GetMessage()
	switch {
	case strings.Contains(message, "cannot start any token") && strings.Contains(message, "\t"),
		p.Line <= len(lines) && strings.HasPrefix(strings.TrimLeft(lines[p.Line-1], " "), "\t"):
		return mistake{fmt.Sprintf("line %d column %d: a tab; indent with spaces", p.Line, p.Column)}
	case strings.Contains(message, "mapping value is not allowed"), strings.Contains(message, "unexpected key name"):
		for i := p.Line; i < len(lines) && p.Line <= len(lines); i++ {
			key, isKey := keyOn(lines[i])
			if !isKey {
				continue
			}
			if tab := indent(lines[i]); lines[i][tab] == '\t' {
				return mistake{fmt.Sprintf("line %d column %d: a tab; indent with spaces", i+1, tab+1)}
			}
			if indent(lines[i]) > indent(lines[p.Line-1]) {
				return mistake{fmt.Sprintf("line %d column %d: %s is indented too far: line %d above it has a value "+
					"already", i+1, indent(lines[i])+1, Clip(oneLine(key)), p.Line)}
			}
			break
		}
		return mistake{fmt.Sprintf("%s: a second colon in one line; text with a colon goes in quotes",
			Position(at.GetToken()))}
	case strings.Contains(message, "value is not allowed in this context"):
		return mistake{fmt.Sprintf("%s: this does not line up with what is above it; mend the indentation",
			Position(at.GetToken()))}
	case strings.Contains(message, "non-map value is specified"):
		return mistake{fmt.Sprintf("%s: %s; want KEY: VALUE", Position(at.GetToken()),
			Clip(oneLine(at.GetToken().Value)))}
	}
	return err
}

// keyOn is the key that a line begins with.
func keyOn(line string) (key string, ok bool) {
	line = strings.TrimLeft(line, " \t-")
	if strings.HasPrefix(line, "#") {
		return "", false
	}
	key, _, ok = strings.Cut(line, ":")
	return key, ok && key != ""
}

func indent(line string) int { return len(line) - len(strings.TrimLeft(line, " ")) }

// oneLine is a text without line ends and what else would control a terminal.
func oneLine(s string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return unicode.ReplacementChar
		}
		return r
	}, strings.Join(strings.Fields(s), " "))
}

// Position is where a token stands, as errors say it.
func Position(t *token.Token) string {
	if t == nil || t.Position == nil {
		return "line 1"
	}
	return fmt.Sprintf("line %d column %d", t.Position.Line, t.Position.Column)
}

// deepLine is the line where text is nested deeper than maxNesting, by brackets or
// by indentation; 0 for none. Brackets in quotes count as well, which no name needs.
func deepLine(text []byte) int {
	depth := 0
	for i, line := range bytes.Split(text, []byte("\n")) {
		if len(line)-len(bytes.TrimLeft(line, " \t-?!&:")) > 2*maxNesting {
			return i + 1
		}
		for _, c := range line {
			switch c {
			case '[', '{':
				depth++
			case ']', '}':
				depth = max(0, depth-1)
			}
			if depth > maxNesting {
				return i + 1
			}
		}
	}
	return 0
}
