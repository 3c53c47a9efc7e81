package main

import (
	"cmp"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// documents is what --json prints: the schema, the Go type that is written, and where it
// comes from.
var documents = []struct{ schema, typ, from string }{
	{"homenode-status/3", "api.Status", "homenode status"},
	{"homenode-explain/3", "api.Explanation", "homenode explain"},
	{"homenode-history/2", "api.History", "homenode history"},
	{"homenode-report/2", "core/report.Report", "homenode report"},
	{"homenode-fleet/1", "ui/cli/see.FleetDocument", "homenode fleet"},
	{"homenode-fleet-fit/1", "ui/cli/see.FitDocument", "homenode fleet fit"},
	{"homenode-home/3", "ui/cli/run.dryStart", "homenode run --dry-run"},
	{"homenode-show/1", "ui/cli/run.shown", "homenode run --show"},
	{"homenode-stat/1", "ui/cli/see.stat", "homenode stat"},
	{"homenode-trial/1", "core/trial.Document", "homenode trial"},
	{"homenode-trial-dry-run/1", "ui/cli/try.dryTrialAnswer", "homenode trial --dry-run"},
	{"homenode-trial-share/1", "core/trial.Shared", "homenode trial --share"},
	{"homenode-move/3", "api.MoveAnswer", "homenode move"},
	{"homenode-undo/2", "api.UndoResult", "homenode undo"},
	{"homenode-resume/2", "api.Resumed", "homenode resume"},
	{"homenode-replay/2", "ui/cli/try.replayResult", "homenode replay"},
	{"homenode-host/1", "core/topology.hostJSON", "homenode topology"},
	{"homenode-measure/1", "core/measure.Document", "homenode doctor and homenode probe"},
	{"homenode-measure-plan/1", "ui/cli/machine.measurePlan", "homenode probe all --dry-run"},
	{"homenode-measure-diff/1", "ui/cli/machine.measureDiff", "homenode probe diff"},
	{"homenode-host-report/1", "ui/cli/machine.hostReport", "homenode host report"},
	{"homenode-host-prepare/2", "ui/cli/machine.preparation", "homenode host prepare"},
	{"homenode-partition/1", "ui/cli/machine.partitionAnswer", "homenode host partition"},
	{"homenode-share/1", "api.Sharing", "homenode share"},
	{"homenode-share-upgrade/1", "api.Upgraded", "homenode share upgrade"},
	{"homenode-plan/3", "ui/cli/try.PlanDocument", "homenode plan"},
	{"homenode-repack/3", "ui/cli/try.RepackDocument", "homenode plan --admit"},
	{"homenode-restore/3", "ui/cli/try.RestoreDocument", "homenode plan --restore"},
	{"homenode-vm-capacity/3", "ui/cli/vm.capacityDocument", "homenode vm capacity"},
	{"homenode-openstack/1", "ui/cli/vm.exported", "homenode openstack export --json"},
	{"homenode-vm-define/3", "ui/cli/vm.defined", "homenode vm define"},
	{"homenode-vm-flavors/2", "ui/cli/vm.flavorsDocument", "homenode vm flavors"},
	{"homenode-vm-list/2", "ui/cli/vm.guestsDocument", "homenode vm list"},
	{"homenode-sim/1", "sim.Result", "homenode sim"},
	{"homenode-version/1", "ui/cli/tree.versionAnswer", "homenode version"},
	{"homenode-config/1", "ui/cli/change.configAnswer", "homenode config show"},
}

// A shape is how a type looks in JSON.
type shape struct {
	kind   string // the name of a type in JSON Schema; "" for any JSON
	words  string // the kind as docs/json.md names it, where that differs
	format string // in JSON Schema
	object string // heading of the object
	of     *shape // elements of a list, values of a map
	by     *shape // keys of a map
	values []string
	null   bool
	absent bool // it may be
}

// forms holds types that MarshalText or MarshalJSON writes, not their fields.
var forms = map[string]shape{
	"time.Time":                {kind: "string", words: "time (RFC 3339)", format: "date-time"},
	"time.Duration":            {kind: "integer"},
	"encoding/json.Number":     {kind: "number"},
	"core/measure.Value":       {kind: "number", null: true},
	"core/topology.Set":        {kind: "string", words: "string (list format of cpuset(7))"},
	"core/topology.CPUSet":     {kind: "string", words: "string (CPU list of cpuset(7))"},
	"core/topology.NodeSet":    {kind: "string", words: "string (node list of cpuset(7))"},
	"encoding/json.RawMessage": {},
	"core/plan.Partition":      {kind: "string"},
}

// String is the shape as docs/json.md writes it.
func (s shape) String() string {
	text := s.kind
	switch {
	case s.object != "":
		text = fmt.Sprintf("[%s](#%s)", s.object, anchor(s.object))
	case s.words != "":
		text = s.words
	case s.by != nil:
		text = fmt.Sprintf("object: %s by %s", s.of, s.by)
	case s.of != nil:
		text = fmt.Sprintf("list of %s", s.of)
	case s.kind == "boolean":
		text = "true or false"
	case s.kind == "":
		text = "any JSON"
	}
	if s.values != nil {
		var quoted []string
		for _, v := range s.values {
			quoted = append(quoted, "`"+cmp.Or(v, `""`)+"`")
		}
		text += ": " + strings.Join(quoted, ", ")
	}
	switch {
	case s.null && s.of != nil: // its elements may be null, too
		text = "null or " + text
	case s.null:
		text += " or null"
	}
	if s.absent {
		text += "; may be absent"
	}
	return text
}

// instead has the type that MarshalJSON of another writes.
var instead = map[string]string{"core/words.Reason": "core/words.reasonJSON",
	"core/topology.Host": "core/topology.hostJSON"}

// open has the types whose constants are not all the values that they have.
var open = map[string]bool{"core/workload.Owner": true}

// source is the declared types of the packages that have been read, and what their text says.
type source struct {
	root     string // folder of the module
	packages map[string]*pkg
}

type pkg struct {
	types  map[string]*ast.TypeSpec
	docs   map[string]string            // of types
	files  map[string]map[string]string // imports by name, of the file that declares a type
	values map[string][]string          // string constants by type
}

func (s *source) pkg(path string) (*pkg, error) {
	if p := s.packages[path]; p != nil {
		return p, nil
	}
	p := &pkg{map[string]*ast.TypeSpec{}, map[string]string{}, map[string]map[string]string{}, map[string][]string{}}
	s.packages[path] = p
	names, err := filepath.Glob(filepath.Join(s.root, path, "*.go"))
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
		if err != nil {
			return nil, err
		}
		imports := map[string]string{}
		for _, i := range f.Imports {
			in, _ := strconv.Unquote(i.Path.Value)
			as := in[strings.LastIndex(in, "/")+1:]
			if i.Name != nil {
				as = i.Name.Name
			}
			imports[as] = strings.TrimPrefix(in, "github.com/homenode/homenode/")
		}
		for _, d := range f.Decls {
			d, ok := d.(*ast.GenDecl)
			if !ok {
				continue
			}
			for _, spec := range d.Specs {
				switch spec := spec.(type) {
				case *ast.TypeSpec:
					p.types[spec.Name.Name], p.files[spec.Name.Name] = spec, imports
					doc := spec.Doc
					if doc == nil && !d.Lparen.IsValid() { // that of a group is of none of its types
						doc = d.Doc
					}
					p.docs[spec.Name.Name] = says(doc)
				case *ast.ValueSpec:
					if typ, ok := spec.Type.(*ast.Ident); ok && d.Tok == token.CONST && len(spec.Values) == 1 {
						if v, ok := spec.Values[0].(*ast.BasicLit); ok && v.Kind == token.STRING {
							text, _ := strconv.Unquote(v.Value)
							p.values[typ.Name] = append(p.values[typ.Name], text)
						}
					}
				}
			}
		}
	}
	return p, nil
}

// says is comments in one line.
func says(comments ...*ast.CommentGroup) string {
	var out []string
	for _, c := range comments {
		if text := strings.Join(strings.Fields(c.Text()), " "); text != "" {
			if last := len(out) - 1; last >= 0 && !strings.HasSuffix(out[last], ".") {
				out[last] += "."
			}
			out = append(out, text)
		}
	}
	return strings.Join(out, " ")
}

type field struct {
	name  string
	shape shape
	says  string
}

// page of what is printed: every part that is an object has a heading of its own.
type objects struct {
	*source
	names map[string]string // headings by type
	queue []string
	wrong []error
}

func (o *objects) heading(typ string) string {
	if h := o.names[typ]; h != "" {
		return h
	}
	name := typ[strings.LastIndex(typ, ".")+1:]
	h := strings.TrimSuffix(strings.TrimSuffix(name, "JSON"), "Document")
	h = strings.ToUpper(h[:1]) + h[1:]
	for _, taken := range o.names {
		if taken == h { // in another package
			h = strings.ReplaceAll(typ[strings.LastIndex(typ, "/")+1:len(typ)-len(name)], ".", "-") + h
		}
	}
	o.names[typ] = h
	o.queue = append(o.queue, typ)
	return h
}

// shape returns how a type looks in JSON.
func (o *objects) shape(in string, at *pkg, imports map[string]string, e ast.Expr) shape {
	inner := func(e ast.Expr) *shape {
		s := o.shape(in, at, imports, e)
		return &s
	}
	switch e := e.(type) {
	case *ast.StarExpr:
		s := o.shape(in, at, imports, e.X)
		s.null = true
		return s
	case *ast.ArrayType:
		if id, ok := e.Elt.(*ast.Ident); ok && id.Name == "byte" {
			return shape{kind: "string", words: "string (base64)"}
		}
		return shape{kind: "array", of: inner(e.Elt)}
	case *ast.MapType:
		return shape{kind: "object", of: inner(e.Value), by: inner(e.Key)}
	case *ast.InterfaceType:
		return shape{}
	case *ast.SelectorExpr:
		return o.named(imports[e.X.(*ast.Ident).Name] + "." + e.Sel.Name)
	case *ast.IndexExpr: // of a generic type
		return o.shape(in, at, imports, e.X)
	case *ast.StructType:
		o.wrong = append(o.wrong, fmt.Errorf("%s: an object without a name", in))
	case *ast.Ident:
		switch e.Name {
		case "string":
			return shape{kind: "string"}
		case "bool":
			return shape{kind: "boolean"}
		case "float64", "float32":
			return shape{kind: "number"}
		case "any":
			return shape{}
		}
		if strings.HasPrefix(e.Name, "int") || strings.HasPrefix(e.Name, "uint") || e.Name == "byte" {
			return shape{kind: "integer"}
		}
		return o.named(in + "." + e.Name)
	}
	return shape{kind: fmt.Sprintf("%T", e)}
}

func (o *objects) named(typ string) shape {
	if f, ok := forms[typ]; ok {
		return f
	}
	typ = cmp.Or(instead[typ], typ)
	p, name := o.find(typ)
	if p == nil {
		return shape{kind: "?"}
	}
	if _, ok := p.types[name].Type.(*ast.StructType); ok {
		return shape{kind: "object", object: o.heading(typ)}
	}
	s := o.shape(strings.TrimSuffix(typ, "."+name), p, p.files[name], p.types[name].Type)
	if s.kind == "string" && s.words == "" && !open[typ] {
		s.values = p.values[name]
	}
	return s
}

// find returns the package that declares a type and its name there; nil where there is none.
func (o *objects) find(typ string) (*pkg, string) {
	dot := strings.LastIndex(typ, ".")
	name := typ[dot+1:]
	p, err := o.pkg(typ[:dot])
	if err != nil || p.types[name] == nil {
		o.wrong = append(o.wrong, fmt.Errorf("%s: no such type (%v)", typ, err))
		return nil, name
	}
	return p, name
}

// fields of an object, those of what is embedded among them.
func (o *objects) fields(typ string) (out []field) {
	p, name := o.find(typ)
	if p == nil {
		return nil
	}
	in := strings.TrimSuffix(typ, "."+name)
	st, ok := p.types[name].Type.(*ast.StructType)
	if !ok {
		o.wrong = append(o.wrong, fmt.Errorf("%s: no object", typ))
		return nil
	}
	for _, f := range st.Fields.List {
		var tag reflect.StructTag
		if f.Tag != nil {
			text, _ := strconv.Unquote(f.Tag.Value)
			tag = reflect.StructTag(text)
		}
		key, options, _ := strings.Cut(tag.Get("json"), ",")
		if key == "-" {
			continue
		}
		if len(f.Names) == 0 && key == "" {
			switch e := f.Type.(type) {
			case *ast.Ident:
				out = append(out, o.fields(in+"."+e.Name)...)
			case *ast.SelectorExpr:
				out = append(out, o.fields(p.files[name][e.X.(*ast.Ident).Name]+"."+e.Sel.Name)...)
			}
			continue
		}
		for i, id := range f.Names {
			if !id.IsExported() {
				continue
			}
			if i > 0 || key == "" {
				key = id.Name
			}
			is := field{key, o.shape(in, p, p.files[name], f.Type), about(id.Name, says(f.Doc, f.Comment))}
			if tag.Get("null") != "" { // a list or a map that says so by being nil
				is.shape.null = true
			}
			if strings.Contains(options, "omit") {
				if _, ok := f.Type.(*ast.StarExpr); ok {
					is.shape.null = false
				}
				is.shape.absent = true
			}
			switch {
			case key == "schema":
				is.says = "Name and version of this form."
			case is.says == "":
				o.wrong = append(o.wrong, fmt.Errorf("%s: %s (%s) has no comment", typ, id.Name, key))
			}
			out = append(out, is)
		}
	}
	return out
}

// jsonPage is docs/json.md, from the types and comments of the source in root.
func jsonPage(root string) ([]byte, error) {
	o := &objects{source: &source{root, map[string]*pkg{}}, names: map[string]string{}}
	var b strings.Builder
	b.WriteString(`# What --json prints

Every command with --json prints one document. Its field ` + "`schema`" + ` names the form and its version. The version
changes when a field goes or its meaning changes. New fields may come at any time: ignore those you do not know.
` + "`status --watch --json`" + ` prints one document a line, and ` + "`history --follow --json`" + ` one [event](#event) a line.

A unit stands at the end of the name: ` + "`_kib`" + ` is KiB (1024 bytes), ` + "`_ns`" + ` nanoseconds, ` + "`_mib_s`" + ` MiB a second. What is
unknown is null, never 0, where a field says nothing else. Shares are between 0 and 1. CPUs and nodes are in the list
format of cpuset(7): ` + "`0-3,8`" + `. A field is always there unless its type says ` + "`may be absent`" + `.
` + "`make generate`" + ` writes this page from the source.

`)
	for _, d := range documents {
		o.names[d.typ] = d.schema // no heading among the parts
		fmt.Fprintf(&b, "- [%s](#%s): `%s`\n", d.schema, anchor(d.schema), strings.ReplaceAll(d.from, " and ", "`, `"))
	}
	table := func(typ string) {
		if says := o.about(typ); says != "" {
			fmt.Fprintf(&b, "%s\n\n", escape(says))
		}
		b.WriteString("| Field | Type | What it is |\n|---|---|---|\n")
		for _, f := range o.fields(typ) {
			fmt.Fprintf(&b, "| `%s` | %s | %s |\n", f.name, f.shape, escape(sentence(f.says)))
		}
	}
	for _, d := range documents {
		fmt.Fprintf(&b, "\n## %s\n\n", d.schema)
		table(d.typ)
	}
	b.WriteString("\n# Parts of these\n")
	for i := 0; i < len(o.queue); i++ {
		fmt.Fprintf(&b, "\n## %s\n\n", o.names[o.queue[i]])
		table(o.queue[i])
	}
	if err := o.err(); err != nil {
		return nil, err
	}
	return []byte(b.String()), nil
}

// err joins what was wrong, each once.
func (o *objects) err() error {
	slices.SortFunc(o.wrong, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return errors.Join(slices.CompactFunc(o.wrong, func(a, b error) bool { return a.Error() == b.Error() })...)
}

// about returns the first words about a type, as a sentence.
func (o *objects) about(typ string) string {
	p, name := o.find(typ)
	if p == nil {
		return ""
	}
	return sentence(about(name, p.docs[name]))
}

// about is what a doc comment says without the name that it begins with.
func about(name, doc string) string {
	for _, is := range []string{" is ", " are "} {
		if text, ok := strings.CutPrefix(doc, name+is); ok {
			return text
		}
	}
	return doc
}

// sentence begins with a capital and ends with a full stop.
func sentence(s string) string {
	if s == "" {
		return s
	}
	if len(s) > 1 && (s[1] == ' ' || (s[1] >= 'a' && s[1] <= 'z')) {
		s = strings.ToUpper(s[:1]) + s[1:]
	}
	if strings.ContainsAny(s[len(s)-1:], ".!?") {
		return s
	}
	return s + "."
}

func escape(s string) string { return strings.NewReplacer("|", `\|`, "<", `\<`, "*", `\*`).Replace(s) }

// anchor is how a heading is linked to.
func anchor(heading string) string { return strings.ReplaceAll(strings.ToLower(heading), "/", "") }

func writeJSONPage(root, file string) error {
	page, err := jsonPage(root)
	if err != nil {
		return err
	}
	return os.WriteFile(file, page, 0o644)
}
