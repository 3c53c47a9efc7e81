package strict

import (
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
// reserve.cpus or workloads[0].match, to line.
type Lines map[string]int

// Of is the line of a path, or of the nearest that was given around it; 1 for none.
func (l Lines) Of(path string) int {
	for path != "" {
		if line, ok := l[path]; ok {
			return line
		}
		path = path[:max(0, strings.LastIndexAny(path, ".["))]
	}
	return 1
}

// Keys checks that every key of a document is one of into's (a pointer to a struct)
// and every value of its type, and tells where they stand. Errors are one line, with
// the key: "line 3: period: 5; want a time with a unit, such as 2s". Wants names what
// values of a type look like, beyond those that are known here.
func Keys(text []byte, into any, wants map[reflect.Type]string) (Lines, error) {
	k := keys{lines: Lines{}, wants: wants}
	file, err := ParseYAML(text)
	if err != nil {
		return nil, err
	}
	err = sane(func() error {
		for _, doc := range file.Docs {
			if doc.Body != nil {
				k.value(doc.Body, reflect.TypeOf(into).Elem(), "")
			}
		}
		return nil
	})
	if k.err != nil {
		err = k.err
	}
	return k.lines, err
}

type keys struct {
	lines Lines
	wants map[reflect.Type]string
	err   error // the first
}

func (k *keys) fail(n ast.Node, path, format string, a ...any) {
	if k.err != nil {
		return
	}
	line := 1
	if t := n.GetToken(); t != nil && t.Position != nil {
		line = t.Position.Line
	}
	if path != "" {
		path += ": "
	}
	k.err = fmt.Errorf("line %d: %s%s", line, path, fmt.Sprintf(format, a...))
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
	if tok := n.GetToken(); tok != nil && tok.Position != nil {
		k.lines[path] = tok.Position.Line
	}
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	leaf := reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextUnmarshaler]())
	switch {
	case t.Kind() == reflect.Struct && !leaf:
		k.object(n, t, path)
	case t.Kind() == reflect.Slice && !leaf:
		list, ok := n.(*ast.SequenceNode)
		if !ok {
			k.fail(n, path, "%s; want a list, such as [a, b]", shown(n))
			return
		}
		for i, v := range list.Values {
			k.value(v, t.Elem(), path+"["+strconv.Itoa(i)+"]")
		}
	default:
		if err := yaml.NodeToValue(n, reflect.New(t).Interface()); err != nil {
			k.fail(n, path, "%s; want %s", shown(n), k.want(t))
		}
	}
}

func (k *keys) object(n ast.Node, t reflect.Type, path string) {
	fields := map[string]reflect.Type{}
	var known []string
	for i := range t.NumField() {
		key, _, _ := strings.Cut(t.Field(i).Tag.Get("yaml"), ",")
		fields[key] = t.Field(i).Type
		known = append(known, key)
	}
	m, ok := n.(ast.MapNode)
	if !ok {
		k.fail(n, path, "%s; want keys: %s", shown(n), strings.Join(known, ", "))
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
			k.fail(it.Key(), path, "unknown key %q; known are %s", Clip(key), strings.Join(known, ", "))
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
	}
	return "one word or text"
}
