package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"

	"github.com/homenode/homenode/api"
)

// object is one in JSON; its keys are written in their order.
type object = map[string]any

// openAPI is docs/openapi.json, from the endpoints and from the types and comments of the source
// in root.
func openAPI(root string) ([]byte, error) {
	o := &objects{source: &source{root, map[string]*pkg{}}, names: map[string]string{}}
	paths := object{}
	refusal := object{"description": "A refusal, with its reason in a sentence. Its code goes with the HTTP status: " +
		statuses() + ".",
		"content": object{"application/json": object{"schema": schema(
			o.named(typeName(reflect.TypeFor[api.Error]())))}}}
	for _, e := range api.Endpoints() {
		says := e.Says
		if e.Changes {
			says += " Only for root and members of the socket's group."
		}
		answer := object{"description": "What was asked for."}
		switch {
		case e.Answer != nil:
			answer["content"] = object{"application/json": object{"schema": schema(o.named(typeName(e.Answer)))}}
		default:
			answer["content"] = object{e.Media: object{"schema": object{}}}
		}
		op := object{"summary": strings.SplitAfter(e.Says, ".")[0], "description": says,
			"operationId": strings.Trim(strings.NewReplacer("/v1/", "", "/", "-", ".json", "").Replace(e.Path), "-"),
			"responses":   object{"200": answer, "default": object{"$ref": "#/components/responses/Refusal"}}}
		if e.Query != nil {
			op["parameters"] = parameters(e.Query)
		}
		if e.Body != nil {
			op["requestBody"] = object{"required": true,
				"content": object{"application/json": object{"schema": o.request(typeName(e.Body))}}}
		}
		at, _ := paths[e.Path].(object)
		if at == nil {
			at = object{}
		}
		at[strings.ToLower(e.Method)] = op
		paths[e.Path] = at
	}
	// by the stream
	for _, sent := range []reflect.Type{reflect.TypeFor[api.Gap](), reflect.TypeFor[api.HouseChange]()} {
		o.named(typeName(sent))
	}
	schemas := object{}
	for i := 0; i < len(o.queue); i++ {
		typ := o.queue[i]
		properties, required := o.properties(typ, false)
		s := object{"type": "object", "properties": properties, "required": required}
		if says := o.about(typ); says != "" {
			s["description"] = says
		}
		schemas[o.names[typ]] = s
	}
	doc := object{
		"openapi": "3.1.0",
		"info": object{"title": "Homenode", "version": "1",
			"license": object{"name": "Apache-2.0", "identifier": "Apache-2.0"},
			"description": "The API of the homenode daemon, on its unix socket. Within version 1 fields and requests " +
				"are added, never renamed or removed: ignore what you do not know. What is unknown is null, never 0, " +
				"where a field says nothing else. CPUs and nodes are in the list format of cpuset(7): 0-3,8."},
		"servers": []any{object{"url": "http://homenode",
			"description": "curl --unix-socket /run/homenode/homenode.sock http://homenode/v1/status"}},
		"paths":      paths,
		"components": object{"schemas": schemas, "responses": object{"Refusal": refusal}},
	}
	if err := o.err(); err != nil {
		return nil, err
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", " ")
	err := enc.Encode(doc)
	return b.Bytes(), err
}

// statuses is the HTTP status of every code of a refusal.
func statuses() string {
	var all []string
	for _, c := range api.Codes {
		all = append(all, fmt.Sprintf("%s %d", c, c.Status()))
	}
	return strings.Join(all, ", ")
}

func typeName(t reflect.Type) string {
	return strings.TrimPrefix(t.PkgPath(), "github.com/homenode/homenode/") + "." + t.Name()
}

func parameters(all []api.Parameter) (out []any) {
	for _, p := range all {
		s := object{"type": p.Type}
		if p.Type == "date-time" {
			s = object{"type": "string", "format": "date-time"}
		}
		if p.Many {
			s = object{"type": "array", "items": s}
		}
		out = append(out, object{"name": p.Name, "in": "query", "required": p.Required, "description": p.Says,
			"schema": s})
	}
	return out
}

// request is the schema of a body: what is left out is zero or empty, and what is not known is
// refused.
func (o *objects) request(typ string) object {
	properties, _ := o.properties(typ, true)
	return object{"type": "object", "description": o.about(typ), "properties": properties,
		"additionalProperties": false}
}

// properties returns the fields of an object, and the names of those that are always there.
// In a request every list and map may be null.
func (o *objects) properties(typ string, request bool) (object, []string) {
	properties := object{}
	required := []string{}
	for _, f := range o.fields(typ) {
		if !f.shape.absent {
			required = append(required, f.name)
		}
		f.shape.null = f.shape.null || (request && f.shape.of != nil)
		s := schema(f.shape)
		s["description"] = sentence(f.says)
		properties[f.name] = s
	}
	slices.Sort(required)
	return properties, required
}

// schema returns a shape in JSON Schema.
func schema(is shape) object {
	s := object{}
	switch {
	case is.object != "":
		s["$ref"] = "#/components/schemas/" + is.object
		if is.null {
			return object{"anyOf": []any{s, object{"type": "null"}}}
		}
		return s
	case is.kind == "":
		return s
	case is.by != nil:
		s["additionalProperties"] = schema(*is.of)
	case is.of != nil:
		s["items"] = schema(*is.of)
	case is.values != nil:
		s["enum"] = is.values
	}
	s["type"] = is.kind
	if is.format != "" {
		s["format"] = is.format
	}
	if is.null {
		s["type"] = []string{is.kind, "null"}
		if is.values != nil {
			var values []any
			for _, v := range is.values {
				values = append(values, v)
			}
			s["enum"] = append(values, nil)
		}
	}
	return s
}

func writeOpenAPI(root, file string) error {
	doc, err := openAPI(root)
	if err != nil {
		return err
	}
	return os.WriteFile(file, doc, 0o644)
}
