package measure

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
)

// most bounds every number of a document: nanoseconds, MB/s and bytes stay far below.
const most = 1e15

// signed are the keys whose numbers may be below 0.
var signed = map[string]bool{"adjacent_line_effect": true, "prefetcher_effect": true}

// checkNumbers refuses quantities that no machine has, and names the first by its key.
func (d *Document) checkNumbers() error {
	v := reflect.ValueOf(*d)
	for i := range v.NumField() {
		// A diagnosis is made anew; what an older one says is not used.
		if v.Type().Field(i).Name == "Diagnosis" {
			continue
		}
		if err := checkNumbers(v.Field(i), jsonKey(v.Type().Field(i))); err != nil {
			return err
		}
	}
	return nil
}

func jsonKey(f reflect.StructField) string {
	key, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return key
}

// checkNumbers checks all floating-point numbers and counts of bytes in v. Those
// of a CPU set, which has no exported fields, are checked where it is read.
func checkNumbers(v reflect.Value, path string) error {
	key := path[strings.LastIndexByte(path, '.')+1:]
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			return checkNumbers(v.Elem(), path)
		}
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			if err := checkNumbers(v.Index(i), fmt.Sprintf("%s[%d]", path, i)); err != nil {
				return err
			}
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() {
				if err := checkNumbers(v.Field(i), path+"."+jsonKey(f)); err != nil {
					return err
				}
			}
		}
	case reflect.Float64:
		x := v.Float()
		switch {
		case !Value(x).Known(): // null
		case x > most || x < -most:
			return fmt.Errorf("%s: is %g; want at most %g", path, x, float64(most))
		case x < 0 && !signed[key]:
			return fmt.Errorf("%s: is %g; want 0 or more, or null where unknown", path, x)
		}
	case reflect.Int64:
		if n := v.Int(); n < 0 && strings.HasSuffix(key, "bytes") {
			return fmt.Errorf("%s: is %d; want 0 or more", path, n)
		}
	}
	return nil
}

// explain says in a reader's words what is wrong with JSON.
func explain(data []byte, err error) error {
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	switch {
	case err == io.EOF:
		return errors.New("it is empty; give what `homenode probe --json` wrote")
	case errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("%s: it ends here; was it cut short?", position(data, int64(len(data))))
	case errors.As(err, &syntax):
		return fmt.Errorf("%s: %s", position(data, max(0, syntax.Offset-1)), syntax)
	case errors.As(err, &kind):
		where := cmp.Or(kind.Field, "the whole")
		return fmt.Errorf("%s: is %s; want %s", where, article(kind.Value), kindName(kind.Type))
	}
	if key, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok {
		return fmt.Errorf("unknown key %s", key)
	}
	return err
}

func article(what string) string {
	switch {
	case strings.HasPrefix(what, "number "):
		return "the " + what
	case what == "array" || what == "object":
		return "an " + what
	case what == "bool":
		return "true or false"
	}
	return "a " + what
}

func kindName(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Pointer:
		return kindName(t.Elem()) + " or null"
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Slice, reflect.Array:
		return "an array"
	case reflect.Float64:
		return "a number that fits"
	case reflect.Int, reflect.Int64:
		return "a whole number"
	}
	return "an object"
}

func position(data []byte, offset int64) string {
	before := data[:min(offset, int64(len(data)))]
	return fmt.Sprintf("line %d column %d", bytes.Count(before, []byte("\n"))+1,
		len(before)-bytes.LastIndexByte(before, '\n'))
}
