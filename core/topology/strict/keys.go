package strict

import (
	"cmp"
	"encoding"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
)

// Lines is where the values of a YAML document stand: path, such as
// reserve.cpus or workloads[0].match, to position.
type Lines map[string]string

// Of is the position of a path, or of the nearest that was given around it.
func (l Lines) Of(path string) string {
	for path != "" {
		if at, ok := l[path]; ok {
			return at
		}
		path = path[:max(0, strings.LastIndexAny(path, ".["))]
	}
	return cmp.Or(l[""], "line 1")
}

// Wants says what values of a type look like, beyond those that are known here. Such
// types are decoded whole.
type Wants map[reflect.Type]string

// OneOrMore is a list that may also be written as its only entry.
type OneOrMore interface {
	// Entry returns a value of the type that an entry has in the document.
	Entry() any
}

// Decode decodes a value into the struct that into points to and tells where the parts
// stand. The library says that for few errors of values, so each value is tried first.
// A key without a value, or with null, is the same as no key; an entry of a list needs a value.
// Errors are one line: "line 3 column 9: period: 5; want a time with a unit, such as 2s".
func Decode(n ast.Node, into any, wants Wants) (Lines, error) {
	k := keys{lines: Lines{}, wants: wants}
	err := sane(func() error {
		k.value(n, reflect.TypeOf(into).Elem(), "")
		if k.err != nil {
			return k.err
		}
		return yaml.NodeToValue(n, into, yaml.Strict())
	})
	return k.lines, err
}

type keys struct {
	lines Lines
	wants Wants
	err   error // the first
}

func (k *keys) fail(n ast.Node, path, format string, a ...any) {
	if k.err != nil {
		return
	}
	if path != "" {
		path += ": "
	}
	k.err = fmt.Errorf("%s: %s%s", Position(n.GetToken()), path, fmt.Sprintf(format, a...))
}

func (k *keys) value(n ast.Node, t reflect.Type, path string) {
	switch x := n.(type) {
	case *ast.NullNode, *ast.CommentGroupNode, *ast.AliasNode: // an alias is checked where it is set
		return
	case *ast.AnchorNode:
		k.value(x.Value, t, path)
		return
	case *ast.TagNode:
		k.value(x.Value, t, path)
		return
	}
	k.lines[path] = Position(n.GetToken())
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	_, leaf := k.wants[t]
	leaf = leaf || reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextUnmarshaler]())
	switch {
	case t.Implements(reflect.TypeFor[OneOrMore]()):
		entry := reflect.TypeOf(reflect.Zero(t).Interface().(OneOrMore).Entry())
		if _, list := n.(*ast.SequenceNode); list {
			entry = reflect.SliceOf(entry)
		}
		k.value(n, entry, path)
	case t.Kind() == reflect.Struct && !leaf:
		k.object(n, t, path)
	case t.Kind() == reflect.Slice && !leaf:
		list, ok := n.(*ast.SequenceNode)
		if !ok {
			k.fail(n, path, "%s; want a list, such as [a, b]", shown(n))
			return
		}
		for i, v := range list.Values {
			entry := path + "[" + strconv.Itoa(i) + "]"
			if v.Type() == ast.NullType {
				k.fail(v, entry, "no value; write one or remove the entry")
				return
			}
			k.value(v, t.Elem(), entry)
		}
	default:
		_, fraction := n.(*ast.FloatNode) // which the library would cut off
		whole := t.Kind() >= reflect.Int && t.Kind() <= reflect.Uint64
		if err := yaml.NodeToValue(n, reflect.New(t).Interface(), yaml.Strict()); err != nil || (fraction && whole) {
			k.fail(n, path, "%s; want %s%s", shown(n), k.want(t), quotes(n))
		}
	}
}

// quotes is what mends {near: [0000:00:06.0]}: between braces the library takes the colon
// for that of a key.
func quotes(n ast.Node) string {
	if !strings.Contains(shown(n), ": ") {
		return ""
	}
	return "; text with a colon goes in quotes"
}

func (k *keys) object(n ast.Node, t reflect.Type, path string) {
	fields := map[string]reflect.Type{}
	for i := range t.NumField() {
		key, _, _ := strings.Cut(t.Field(i).Tag.Get("yaml"), ",")
		fields[key] = t.Field(i).Type
	}
	m, ok := n.(ast.MapNode)
	if !ok {
		if _, text := n.(*ast.StringNode); text && strings.Contains(shown(n), ":") {
			k.fail(n, path, "%s; want a space after the colon", shown(n))
			return
		}
		k.fail(n, path, "%s; want keys: %s", shown(n), known(t, "yaml"))
		return
	}
	for it := m.MapRange(); it.Next(); {
		if it.Key().IsMergeKey() {
			continue
		}
		key := oneLine(it.Key().String())
		if s, ok := it.Key().(*ast.StringNode); ok {
			key = s.Value
		}
		field, ok := fields[key]
		if !ok {
			k.fail(it.Key(), path, "unknown key %q%s", Clip(key), instead(key, t, "yaml"))
			return
		}
		k.value(it.Value(), field, strings.TrimPrefix(path+"."+key, "."))
	}
}

// shown is a value as it is written, for an error.
func shown(n ast.Node) string { return Clip(oneLine(n.String())) }

func (k *keys) want(t reflect.Type) string {
	if w, ok := k.wants[t]; ok {
		return w
	}
	switch {
	case t == reflect.TypeFor[time.Duration]():
		return "a time with a unit, such as 2s"
	case t.Kind() == reflect.Bool:
		return "true or false"
	case t.Kind() >= reflect.Int && t.Kind() <= reflect.Uint64:
		return "a whole number"
	case t.Kind() == reflect.Float64:
		return "a number"
	case t.Kind() == reflect.Map:
		return "keys with text, such as {app: db}"
	}
	return "one word or text"
}
