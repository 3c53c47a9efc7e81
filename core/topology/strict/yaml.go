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
			return err
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
	if errors.As(err, &at) && at.GetToken() != nil {
		return fmt.Errorf("%s: %s", Position(at.GetToken()), oneLine(at.GetMessage()))
	}
	return errors.New(oneLine(err.Error()))
}

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
