package config

import (
	"cmp"
	"encoding"
	"fmt"
	"reflect"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/goccy/go-yaml"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology/strict"
	"github.com/homenode/homenode/core/workload"
	"github.com/homenode/homenode/core/workload/specfile"
)

// Value is one value of a configuration.
type Value struct {
	Key  string // balance.window, workloads[0].match
	Text string // as YAML has it
	From string // file, line and column; "" is the default
}

// Values is every value of a configuration in the order of the manual; of rules those that they give.
func (c *Config) Values() []Value {
	var out []Value
	add := func(key, text string) {
		v := Value{Key: key, Text: text}
		if _, given := c.from[key]; given {
			v.From = strict.Lines(c.from).Of(key)
		}
		out = append(out, v)
	}
	var walk func(prefix string, v reflect.Value, rule bool)
	walk = func(prefix string, v reflect.Value, rule bool) {
		for i := range v.NumField() {
			field := v.Type().Field(i)
			name := field.Tag.Get("yaml")
			if name == "" || field.Tag.Get("known") == "no" {
				continue
			}
			f := v.Field(i)
			_, text := f.Addr().Interface().(encoding.TextUnmarshaler)
			switch {
			case rule && f.IsZero():
			case f.Type() == reflect.TypeFor[[]Rule]():
				if f.Len() == 0 {
					add(prefix+name, "[]")
				}
				for i := range f.Len() {
					walk(fmt.Sprintf("%s%s[%d].", prefix, name, i), f.Index(i), true)
				}
			case f.Kind() == reflect.Struct && !text:
				walk(prefix+name+".", f, rule)
			case f.Kind() == reflect.Pointer:
				add(prefix+name, Written(f.Elem().Interface()))
			default:
				add(prefix+name, Written(f.Interface()))
			}
		}
	}
	walk("", reflect.ValueOf(c).Elem(), false)
	return out
}

var roundTimes = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`([mh])(0[ms])+$`) })

// Written is a value as a person writes it in YAML.
func Written(v any) string {
	switch v := v.(type) {
	case Size:
		for _, unit := range []struct {
			size Size
			name string
		}{{1 << 30, "GiB"}, {1 << 20, "MiB"}, {1 << 10, "KiB"}} {
			if v%unit.size == 0 && v > 0 {
				return fmt.Sprint(uint64(v/unit.size), unit.name)
			}
		}
		return fmt.Sprint(uint64(v), "B")
	case time.Duration:
		return roundTimes().ReplaceAllString(v.String(), "$1")
	case plan.Partition:
		return cmp.Or(string(v), "any")
	case Grants:
		all := make([]grant, len(v))
		for i, g := range v {
			all[i].Allow = g.Allow
			all[i].From.Namespaces = g.Namespaces
			all[i].From.Labels = g.Labels
		}
		return flow(all)
	case specfile.Nears:
		all := make([]map[string]string, len(v))
		for i, n := range v {
			all[i] = map[string]string{}
			device, gpu := n.Device, ""
			if device == workload.AnyGPU {
				device, gpu = "", "auto"
			}
			for key, value := range map[string]string{"device": device, "gpu": gpu, "process": n.Process,
				"service": n.Service, "policy": n.Policy()} {
				if value != "" {
					all[i][key] = value
				}
			}
		}
		return flow(all)
	case specfile.Goals:
		return flow(v.Written())
	case fmt.Stringer:
		return flow(v.String())
	}
	if k := reflect.ValueOf(v).Kind(); k == reflect.Slice && reflect.ValueOf(v).Len() == 0 {
		return "[]"
	}
	return flow(v)
}

// flow is a value in one line of YAML.
func flow(v any) string {
	if r := reflect.ValueOf(v); r.Kind() == reflect.Float64 {
		return fmt.Sprint(v)
	}
	text, err := yaml.MarshalWithOptions(v, yaml.Flow(true))
	if err != nil { // no value of ours
		return fmt.Sprint(v)
	}
	return strings.TrimSpace(string(text))
}
