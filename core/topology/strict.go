package topology

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

// strict decodes JSON into structs of strings, numbers, pointers, slices and
// structs. Unlike encoding/json it refuses keys that are unknown, repeated or
// spelled in another case, and it remembers where each value stands.
type strict struct {
	data  []byte
	dec   *json.Decoder
	where map[string]int64 // path → offset of the value
}

func newStrict(data []byte) *strict {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	return &strict{data: data, dec: dec, where: map[string]int64{}}
}

func (d *strict) decode(into any) error {
	if err := d.value(reflect.ValueOf(into).Elem(), ""); err != nil {
		return err
	}
	if _, err := d.dec.Token(); err != io.EOF {
		return fmt.Errorf("%s: there is more after the end of the object; remove it", d.position(d.next()))
	}
	return nil
}

// errorf names the value at path, or the nearest that was given around it.
func (d *strict) errorf(path, format string, args ...any) error {
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

func (d *strict) position(offset int64) string {
	before := d.data[:min(offset, int64(len(d.data)))]
	line := bytes.Count(before, []byte("\n")) + 1
	column := len(before) - bytes.LastIndexByte(before, '\n')
	return fmt.Sprintf("line %d column %d", line, column)
}

// next is where the next token starts.
func (d *strict) next() int64 {
	at := d.dec.InputOffset()
	for at < int64(len(d.data)) && strings.IndexByte(" \t\r\n,:", d.data[at]) >= 0 {
		at++
	}
	return at
}

func (d *strict) token() (json.Token, int64, error) {
	at := d.next()
	tok, err := d.dec.Token()
	if err == nil {
		return tok, at, nil
	}
	var syntax *json.SyntaxError
	switch {
	case errors.As(err, &syntax):
		return nil, at, fmt.Errorf("%s: %v", d.position(max(0, syntax.Offset-1)), err)
	case err == io.EOF || errors.Is(err, io.ErrUnexpectedEOF):
		return nil, at, fmt.Errorf("%s: the input ends here; it was cut short or is not JSON", d.position(at))
	}
	return nil, at, fmt.Errorf("%s: %v", d.position(at), err)
}

func (d *strict) value(v reflect.Value, path string) error {
	tok, at, err := d.token()
	if err != nil {
		return err
	}
	d.where[path] = at
	return d.assign(v, path, tok, at)
}

func (d *strict) assign(v reflect.Value, path string, tok json.Token, at int64) error {
	want := func(what string) error {
		name := path
		if name == "" {
			name = "the host"
		}
		return fmt.Errorf("%s: %s is %s; give %s", d.position(at), name, tokenName(tok), what)
	}
	switch v.Kind() {
	case reflect.Pointer:
		if tok == nil {
			return nil
		}
		v.Set(reflect.New(v.Type().Elem()))
		return d.assign(v.Elem(), path, tok, at)
	case reflect.String:
		s, ok := tok.(string)
		if !ok {
			return want("a string")
		}
		v.SetString(s)
	case reflect.Int64:
		n, ok := tok.(json.Number)
		i, err := strconv.ParseInt(string(n), 10, 64)
		if !ok || err != nil {
			return want("a whole number, or null where unknown")
		}
		v.SetInt(i)
	case reflect.Float64:
		n, ok := tok.(json.Number)
		f, err := strconv.ParseFloat(string(n), 64)
		if !ok || err != nil {
			return want("a number, or null where unknown")
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
	}
	return nil
}

func (d *strict) array(v reflect.Value, path string) error {
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

func (d *strict) object(v reflect.Value, path string) error {
	fields := map[string]int{}
	var keys []string
	for i := range v.NumField() {
		key := v.Type().Field(i).Tag.Get("json")
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
			return fmt.Errorf("%s: unknown key %q%s; known are %s", d.position(at), clip(key), in(path), strings.Join(keys, ", "))
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
		return fmt.Sprintf("the string %q", clip(tok))
	}
	return fmt.Sprint(tok)
}
