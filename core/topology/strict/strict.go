// Package strict reads JSON and YAML that people write: what the usual decoders
// would pass over in silence is an error here, in one line that says where and,
// for JSON, what to give instead.
//
// Not in here: what any value means.
package strict

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strconv"
	"strings"
)

// Decoder decodes one JSON object into structs of strings, whole numbers (int,
// int64), float64, pointers, slices, maps by string, json.RawMessage and structs.
// A pointer is for what may be null or left out. Unlike encoding/json it refuses
// keys that are unknown, repeated or spelled in another case, and it remembers
// where each value stands.
type Decoder struct {
	what  string // "the host"
	data  []byte
	dec   *json.Decoder
	where map[string]int64 // path → offset of the value
}

// New makes a decoder of data; what names the whole of it in errors: "the host".
func New(what string, data []byte) *Decoder {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	return &Decoder{what: what, data: data, dec: dec, where: map[string]int64{}}
}

// Decode fills in the struct that into points to.
func (d *Decoder) Decode(into any) error {
	if err := d.value(reflect.ValueOf(into).Elem(), ""); err != nil {
		return err
	}
	if _, err := d.dec.Token(); err != io.EOF {
		return fmt.Errorf("%s: there is more after the end of the object; remove it", d.position(d.next()))
	}
	return nil
}

// Errorf is an error at the value of a path such as nodes[0].cpus, or at the
// nearest that was given around it.
func (d *Decoder) Errorf(path, format string, args ...any) error {
	at, ok := d.where[path]
	for outer := path; !ok && outer != ""; at, ok = d.where[outer] {
		outer = outer[:max(0, strings.LastIndexAny(outer, ".["))]
		if outer == "" {
			at, ok = 0, true
			break
		}
	}
	return fmt.Errorf("%s: %s %s", d.position(at), path, fmt.Sprintf(format, args...))
}

func (d *Decoder) position(offset int64) string {
	before := d.data[:min(offset, int64(len(d.data)))]
	line := bytes.Count(before, []byte("\n")) + 1
	column := len(before) - bytes.LastIndexByte(before, '\n')
	return fmt.Sprintf("line %d column %d", line, column)
}

// next is where the next token starts.
func (d *Decoder) next() int64 {
	at := d.dec.InputOffset()
	for at < int64(len(d.data)) && strings.IndexByte(" \t\r\n,:", d.data[at]) >= 0 {
		at++
	}
	return at
}

func (d *Decoder) token() (json.Token, int64, error) {
	at := d.next()
	tok, err := d.dec.Token()
	if err == nil {
		return tok, at, nil
	}
	return nil, at, d.broken(err, at)
}

// broken is what reading a token or a value at an offset failed with.
func (d *Decoder) broken(err error, at int64) error {
	var syntax *json.SyntaxError
	switch {
	case errors.As(err, &syntax):
		return fmt.Errorf("%s: %v", d.position(max(0, syntax.Offset-1)), err)
	case err == io.EOF || errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("%s: the input ends here; it was cut short or is not JSON", d.position(at))
	}
	return fmt.Errorf("%s: %v", d.position(at), err)
}

func (d *Decoder) value(v reflect.Value, path string) error {
	if v.Type() == reflect.TypeFor[json.RawMessage]() {
		return d.raw(v)
	}
	tok, at, err := d.token()
	if err != nil {
		return err
	}
	d.where[path] = at
	return d.assign(v, path, tok, at, false)
}

// raw keeps a value as it is written.
func (d *Decoder) raw(v reflect.Value) error {
	at := d.next()
	var text json.RawMessage
	if err := d.dec.Decode(&text); err != nil {
		var syntax *json.SyntaxError
		if errors.As(err, &syntax) {
			return fmt.Errorf("%s: %v", d.position(at), err) // its offset counts from elsewhere
		}
		return d.broken(err, at)
	}
	v.SetBytes(text)
	return nil
}

func (d *Decoder) assign(v reflect.Value, path string, tok json.Token, at int64, nullable bool) error {
	want := func(what string) error {
		if nullable {
			what += ", or null where unknown"
		}
		name := path
		if name == "" {
			name = d.what
		}
		return fmt.Errorf("%s: %s is %s; give %s", d.position(at), name, tokenName(tok), what)
	}
	switch v.Kind() {
	case reflect.Pointer:
		if tok == nil {
			return nil
		}
		v.Set(reflect.New(v.Type().Elem()))
		return d.assign(v.Elem(), path, tok, at, true)
	case reflect.String:
		s, ok := tok.(string)
		if !ok {
			return want("a string")
		}
		v.SetString(s)
	case reflect.Int, reflect.Int64:
		n, ok := tok.(json.Number)
		i, err := strconv.ParseInt(string(n), 10, 64)
		if !ok || err != nil {
			return want("a whole number")
		}
		v.SetInt(i)
	case reflect.Float64:
		n, ok := tok.(json.Number)
		f, err := strconv.ParseFloat(string(n), 64)
		if !ok || err != nil {
			return want("a number")
		}
		v.SetFloat(f)
	case reflect.Slice:
		if tok == nil {
			return nil
		}
		if tok != json.Delim('[') {
			return want("an array")
		}
		return d.array(v, path)
	case reflect.Struct:
		if tok != json.Delim('{') {
			return want("an object")
		}
		return d.object(v, path)
	case reflect.Map:
		if tok != json.Delim('{') {
			return want("an object")
		}
		return d.dict(v, path)
	}
	return nil
}

func (d *Decoder) array(v reflect.Value, path string) error {
	v.Set(reflect.MakeSlice(v.Type(), 0, 0))
	for i := 0; d.dec.More(); i++ {
		v.Set(reflect.Append(v, reflect.Zero(v.Type().Elem())))
		if err := d.value(v.Index(i), path+"["+strconv.Itoa(i)+"]"); err != nil {
			return err
		}
	}
	_, _, err := d.token()
	return err
}

func (d *Decoder) object(v reflect.Value, path string) error {
	fields := map[string]int{}
	var keys []string
	for i := range v.NumField() {
		key, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",") // what follows is for writing
		fields[key] = i
		keys = append(keys, key)
	}
	seen := map[string]bool{}
	for d.dec.More() {
		tok, at, err := d.token()
		if err != nil {
			return err
		}
		key, _ := tok.(string)
		field, ok := fields[key]
		inside := strings.TrimPrefix(path+"."+key, ".")
		switch {
		case !ok:
			return fmt.Errorf("%s: unknown key %q%s; known are %s", d.position(at), Clip(key), in(path), strings.Join(keys, ", "))
		case seen[key]:
			return fmt.Errorf("%s: key %q is there twice%s; keep one", d.position(at), key, in(path))
		}
		seen[key] = true
		if err := d.value(v.Field(field), inside); err != nil {
			return err
		}
	}
	_, _, err := d.token()
	return err
}

// Entry is the path of a map's entry.
func Entry(path, key string) string { return path + "[" + strconv.Quote(Clip(key)) + "]" }

// dict is an object whose keys are data.
func (d *Decoder) dict(v reflect.Value, path string) error {
	v.Set(reflect.MakeMap(v.Type()))
	for d.dec.More() {
		tok, at, err := d.token()
		if err != nil {
			return err
		}
		key, _ := tok.(string)
		if v.MapIndex(reflect.ValueOf(key)).IsValid() {
			return fmt.Errorf("%s: key %q is there twice%s; keep one", d.position(at), Clip(key), in(path))
		}
		one := reflect.New(v.Type().Elem()).Elem()
		if err := d.value(one, Entry(path, key)); err != nil {
			return err
		}
		v.SetMapIndex(reflect.ValueOf(key), one)
	}
	_, _, err := d.token()
	return err
}

func in(path string) string {
	if path == "" {
		return ""
	}
	return " in " + path
}

func tokenName(tok json.Token) string {
	switch tok := tok.(type) {
	case nil:
		return "null"
	case json.Delim:
		if tok == '[' {
			return "an array"
		}
		return "an object"
	case string:
		return fmt.Sprintf("the string %q", Clip(tok))
	}
	return fmt.Sprint(tok)
}

// Clip shortens a value for an error.
func Clip(s string) string {
	if len(s) > 40 {
		return s[:40] + "…"
	}
	return s
}
