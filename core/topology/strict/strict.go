package strict

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Decoder decodes one JSON object into structs of strings, numbers, pointers, slices,
// maps by string and structs. A pointer is for what may be null or left out; a slice
// may be null too. Keys that are unknown, repeated or spelled in another case are errors.
type Decoder struct {
	what string // "the host"
	data []byte
}

// New makes a decoder of data; what names the whole of it in errors: "the host".
func New(what string, data []byte) *Decoder { return &Decoder{what, data} }

// notNull refuses null, which the library takes for zero.
var notNull = json.WithUnmarshalers(json.UnmarshalFromFunc(func(dec *jsontext.Decoder, v any) error {
	t := reflect.TypeOf(v).Elem()
	if dec.PeekKind() == 'n' && t.Kind() != reflect.Pointer && t.Kind() != reflect.Slice {
		return &json.SemanticError{GoType: t}
	}
	return errors.ErrUnsupported // so that the library decodes it
}))

// Decode fills in the struct that into points to.
func (d *Decoder) Decode(into any) error {
	err := json.Unmarshal(d.data, into, json.RejectUnknownMembers(true), notNull)
	var offset int64
	var semantic *json.SemanticError
	if errors.As(err, &semantic) {
		offset = semantic.ByteOffset
		at := d.position(offset)
		p := semantic.JSONPointer
		t := semantic.GoType
		if errors.Is(semantic, json.ErrUnknownName) {
			return fmt.Errorf("%s: unknown key %q%s%s", at, Clip(p.LastToken()), in(p),
				instead(p.LastToken(), t, "json"))
		}
		var tok jsontext.Token
		if tok, err = jsontext.NewDecoder(bytes.NewReader(d.data[offset:])).ReadToken(); err == nil {
			return fmt.Errorf("%s: %s is %s; give %s", at, cmp.Or(pathOf(p), d.what), tokenName(tok), kindName(t))
		}
	}
	var syntax *jsontext.SyntacticError
	if errors.As(err, &syntax) {
		at := d.position(offset + syntax.ByteOffset)
		switch {
		case errors.Is(syntax, jsontext.ErrDuplicateName):
			return fmt.Errorf("%s: key %q is there twice%s; keep one", at, Clip(syntax.JSONPointer.LastToken()),
				in(syntax.JSONPointer))
		case errors.Is(syntax, io.ErrUnexpectedEOF):
			return fmt.Errorf("%s: the input ends here; it was cut short or is not JSON", at)
		}
		return fmt.Errorf("%s: %w", at, syntax.Err)
	}
	return err
}

// Errorf is an error at the value of a path such as nodes[0].cpus, or at the
// nearest that was given around it.
func (d *Decoder) Errorf(path, format string, args ...any) error {
	return fmt.Errorf("%s: %s %s", d.position(d.find(path)), path, fmt.Sprintf(format, args...))
}

// find is the offset of the value of a path, or of the nearest around it.
func (d *Decoder) find(path string) (offset int64) {
	dec := jsontext.NewDecoder(bytes.NewBuffer(d.data))
	for nearest := -1; nearest < len(path); {
		at := dec.InputOffset()
		at += int64(len(d.data[at:]) - len(bytes.TrimLeft(d.data[at:], " \t\r\n,:")))
		if _, err := dec.ReadToken(); err != nil {
			break
		}
		if kind, n := dec.StackIndex(dec.StackDepth()); kind == '{' && n%2 == 1 {
			continue // a key; its value is next
		}
		p := pathOf(dec.StackPointer())
		if rest, ok := strings.CutPrefix(path, p); ok && len(p) > nearest &&
			(p == "" || rest == "" || rest[0] == '.' || rest[0] == '[') {
			nearest, offset = len(p), at
		}
	}
	return offset
}

func (d *Decoder) position(offset int64) string {
	before := d.data[:min(offset, int64(len(d.data)))]
	line := bytes.Count(before, []byte("\n")) + 1
	column := len(before) - bytes.LastIndexByte(before, '\n')
	return fmt.Sprintf("line %d column %d", line, column)
}

func tokenName(tok jsontext.Token) string {
	switch tok.Kind() {
	case '[':
		return "an array"
	case '{':
		return "an object"
	case '"':
		return fmt.Sprintf("the string %q", Clip(tok.String()))
	}
	return Clip(tok.String())
}

func kindName(t reflect.Type) string {
	switch t.Kind() {
	case reflect.String:
		return "a string"
	case reflect.Int, reflect.Int64:
		return "a whole number"
	case reflect.Float64:
		return "a number"
	case reflect.Slice:
		return "an array"
	}
	return "an object"
}

// keysOf lists the keys of a struct, as its tags of a format have them, but for those that are only read
// to say what they are called now (known:"no").
func keysOf(t reflect.Type, format string) (keys []string) {
	for i := range t.NumField() {
		key, _, _ := strings.Cut(t.Field(i).Tag.Get(format), ",") // what follows is for writing
		if key != "" && t.Field(i).Tag.Get("known") != "no" {
			keys = append(keys, key)
		}
	}
	return keys
}

// mostKeys is how many keys an error lists: a line of 300 characters is not read.
const mostKeys = 12

// known lists the keys of a struct for an error.
func known(t reflect.Type, format string) string {
	keys := keysOf(t, format)
	if more := len(keys) - mostKeys; more > 1 {
		return fmt.Sprintf("%s and %d more", strings.Join(keys[:mostKeys], ", "), more)
	}
	return strings.Join(keys, ", ")
}

// instead says which key was meant by an unknown one, or which there are.
func instead(key string, t reflect.Type, format string) string {
	if near := Nearest(key, keysOf(t, format)); near != "" {
		return "; did you mean " + near + "?"
	}
	return "; known are " + known(t, format)
}

// in says which object the key that p leads to is in.
func in(p jsontext.Pointer) string {
	if p = p.Parent(); p == "" {
		return ""
	}
	return " in " + pathOf(p)
}

// pathOf is a pointer as errors say it: nodes[0].cpus.
func pathOf(p jsontext.Pointer) (path string) {
	for tok := range p.Tokens() {
		path = Entry(path, tok)
	}
	return path
}

// Entry is the path of what a key or an index names inside the value of a path.
func Entry(path, key string) string {
	const digits, letters = "0123456789", "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_"
	switch {
	case key != "" && strings.Trim(key, digits) == "":
		return path + "[" + Clip(key) + "]"
	case key != "" && strings.Trim(key, digits+letters) == "":
		return strings.TrimPrefix(path+"."+Clip(key), ".")
	}
	return path + "[" + strconv.Quote(Clip(key)) + "]"
}

// Clip shortens a value for an error.
func Clip(s string) string {
	if len(s) > 40 {
		return s[:40] + "…"
	}
	return s
}
