package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/spf13/cobra"

	"github.com/homenode/homenode/core/measure"
	"github.com/homenode/homenode/ui/cli/tree"
)

// jsonPage is docs/json.md, by heading and field, with what of it a script has seen.
type jsonPage struct {
	objects        map[string]map[string]jsonField
	schemas, calls map[string]bool
}

type jsonField struct{ form, says string }

func readJSONPage() (*jsonPage, error) {
	text, err := os.ReadFile("../../docs/json.md")
	p := &jsonPage{map[string]map[string]jsonField{}, map[string]bool{}, map[string]bool{}}
	row := regexp.MustCompile("^\\| `([^`]+)` \\| (.+?) \\| (.+) \\|$")
	var object map[string]jsonField
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if heading, ok := strings.CutPrefix(line, "## "); ok {
			object = map[string]jsonField{}
			p.objects[heading] = object
		} else if m := row.FindStringSubmatch(line); m != nil {
			object[m[1]] = jsonField{m[2], m[3]}
		}
	}
	return p, err
}

// checkJSON compares what a command printed with --json with what the page says of it.
func checkJSON(ts *testscript.TestScript, args []string) {
	p := ts.Value("json").(*jsonPage)
	if c, _, err := tree.Command().Find(args); err == nil {
		p.calls[c.CommandPath()] = true
	}
	d := json.NewDecoder(strings.NewReader(ts.ReadFile("stdout")))
	d.UseNumber()
	for {
		var doc map[string]any
		if err := d.Decode(&doc); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			ts.Fatalf("no JSON: %v", err)
		}
		schema, _ := doc["schema"].(string)
		p.schemas[schema] = true
		if wrong := p.object(schema, doc, schema); len(wrong) > 0 {
			ts.Fatalf("docs/json.md says otherwise:\n%s", strings.Join(wrong, "\n"))
		}
	}
}

// object lists what of an object is not as documented under a heading.
func (p *jsonPage) object(heading string, o map[string]any, at string) (wrong []string) {
	fields, ok := p.objects[heading]
	if !ok {
		return []string{fmt.Sprintf("%s: no heading %q", at, heading)}
	}
	for _, name := range slices.Sorted(maps.Keys(o)) {
		if f, ok := fields[name]; ok {
			wrong = append(wrong, p.value(strings.TrimSuffix(f.form, "; may be absent"), f.says, o[name], at+"."+name)...)
		} else {
			wrong = append(wrong, fmt.Sprintf("%s.%s: not documented", at, name))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if _, ok := o[name]; !ok && !strings.HasSuffix(fields[name].form, "; may be absent") {
			wrong = append(wrong, fmt.Sprintf("%s.%s: absent", at, name))
		}
	}
	return wrong
}

var jsonLink = regexp.MustCompile(`^\[([^]]+)\]`)

// value is the same of a value and the form that is documented for it.
func (p *jsonPage) value(form, says string, v any, at string) (wrong []string) {
	if form == "any JSON" {
		return nil
	}
	ok := false
	form, orNull := strings.CutPrefix(form, "null or ")
	list, isList := strings.CutPrefix(form, "list of ")
	base, nullable := strings.CutSuffix(form, " or null")
	kind, values, _ := strings.Cut(base, ": ")
	switch v := v.(type) {
	case nil:
		measured := strings.HasPrefix(at, measure.Schema) // any list of measurements may be null
		ok = orNull || (isList && measured) || (!isList && nullable)
	case []any:
		for i, e := range v {
			wrong = append(wrong, p.value(list, says, e, fmt.Sprintf("%s[%d]", at, i))...)
		}
		ok = isList
	case map[string]any:
		if m := jsonLink.FindStringSubmatch(base); m != nil {
			return p.object(m[1], v, at)
		}
		of, _, _ := strings.Cut(values, " by ")
		for key, e := range v {
			wrong = append(wrong, p.value(of, says, e, at+"."+key)...)
		}
		ok = kind == "object"
	case bool:
		ok = base == "true or false"
	case json.Number:
		ok = base == "number" || base == "integer" && !strings.ContainsAny(v.String(), ".e")
	case string:
		_, err := time.Parse(time.RFC3339Nano, v)
		ok = base == "time (RFC 3339)" && err == nil || values == "" && strings.HasPrefix(base, "string") || kind == "string" && strings.Contains(values, "`"+v+"`")
	}
	if !ok {
		wrong = append(wrong, fmt.Sprintf("%s: %.60v, which is no %s", at, v, form))
	}
	return wrong
}

// documented fails for each command with --json that the script has not run, and for each
// schema of docs/json.md that it has not seen.
func documented(ts *testscript.TestScript, neg bool, args []string) {
	p := ts.Value("json").(*jsonPage)
	var missing []string
	var each func(c *cobra.Command)
	each = func(c *cobra.Command) {
		if c.Flags().Lookup("json") != nil && !p.calls[c.CommandPath()] {
			missing = append(missing, c.CommandPath()+" --json")
		}
		for _, sub := range c.Commands() {
			each(sub)
		}
	}
	each(tree.Command())
	for heading := range p.objects {
		if strings.Contains(heading, "/") && !p.schemas[heading] {
			missing = append(missing, heading)
		}
	}
	if len(missing) > 0 {
		slices.Sort(missing)
		ts.Fatalf("not in this script:\n%s", strings.Join(missing, "\n"))
	}
}
