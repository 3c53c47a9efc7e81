package view

import (
	"html"
	"reflect"

	"github.com/homenode/homenode/core/words"
)

// Markup is s as text of HTML, SVG or XML.
func Markup(s string) string { return html.EscapeString(words.Printable(s)) }

// PlainAll is a copy of v with words.Printable of every string in it, for whatever is shown as
// text; what has no exported fields is as it was.
func PlainAll[T any](v T) T {
	in := reflect.ValueOf(&v).Elem()
	out := reflect.New(in.Type()).Elem()
	plainInto(out, in)
	return out.Interface().(T)
}

func plainInto(out, in reflect.Value) {
	out.Set(in)
	switch in.Kind() {
	case reflect.String:
		out.SetString(words.Printable(in.String()))
	case reflect.Pointer:
		if !in.IsNil() {
			out.Set(reflect.New(in.Type().Elem()))
			plainInto(out.Elem(), in.Elem())
		}
	case reflect.Interface:
		if !in.IsNil() {
			inner := reflect.New(in.Elem().Type()).Elem()
			plainInto(inner, in.Elem())
			out.Set(inner)
		}
	case reflect.Slice:
		if !in.IsNil() {
			out.Set(reflect.MakeSlice(in.Type(), in.Len(), in.Len()))
			for i := range in.Len() {
				plainInto(out.Index(i), in.Index(i))
			}
		}
	case reflect.Array:
		for i := range in.Len() {
			plainInto(out.Index(i), in.Index(i))
		}
	case reflect.Map:
		if !in.IsNil() {
			out.Set(reflect.MakeMap(in.Type()))
			for k, x := range in.Seq2() {
				key, value := reflect.New(k.Type()).Elem(), reflect.New(x.Type()).Elem()
				plainInto(key, k)
				plainInto(value, x)
				out.SetMapIndex(key, value)
			}
		}
	case reflect.Struct:
		for i := range in.NumField() {
			if in.Type().Field(i).IsExported() {
				plainInto(out.Field(i), in.Field(i))
			}
		}
	}
}
