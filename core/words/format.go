package words

import (
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
	"time"
)

// format puts values in the place of braces, in order:
//
//	{}                text, whole number or part
//	{.2f}             number with so many decimals; {.4g} with so many digits
//	{%}               share, 0 to 1, in percent
//	{n vCPU}          number and what is counted, in the plural with an s
//	{n entry|entries} the same with a plural of its own
//	{is|are}          no value: singular or plural by the last number or set
//	{times}           once, 2 times
//	{size} {bytes}    memory in KiB, in bytes
//	{gbs}             bandwidth of memory in MiB/s, as GB/s
//	{nodes} {cpus}    set with its noun: node 0, CPUs 0-3
//	{caches}          likewise: cache 3, caches 2-3
//	{for}             duration in ns: 90 s, 5 min
//	{seconds}         duration in ns, in seconds
//	{q}               quoted text
//	{list} {and}      list with commas, and with "and" before the last
//	{more}            list of sentences, with a space before each
func format(sentence string, args []any) string {
	var b strings.Builder
	k, last := 0, 0.0
	for {
		before, rest, ok := strings.Cut(sentence, "{")
		b.WriteString(before)
		if !ok {
			return b.String()
		}
		var kind string
		kind, sentence, _ = strings.Cut(rest, "}")
		noun, counts := strings.CutPrefix(kind, "n ")
		if one, many, verb := strings.Cut(kind, "|"); verb && !counts {
			b.WriteString(pick(last, one, many))
			continue
		}
		if k == len(args) { // of another version of the sentence
			b.WriteString("?")
			continue
		}
		a := plain(args[k])
		k++
		if counts {
			last = number(a)
			b.WriteString(Count(last, noun))
			continue
		}
		if kind == "nodes" || kind == "cpus" {
			last = 1
			if several(text(a)) {
				last = 2
			}
		}
		b.WriteString(show(kind, a))
	}
}

// places returns how many values a sentence takes.
func places(sentence string) int {
	n := 0
	for {
		_, rest, more := strings.Cut(sentence, "{")
		if !more {
			return n
		}
		var kind string
		kind, sentence, _ = strings.Cut(rest, "}")
		if !strings.Contains(kind, "|") || strings.HasPrefix(kind, "n ") {
			n++
		}
	}
}

// show is one value as its place in the sentence wants it.
func show(kind string, a any) string {
	switch kind {
	case "":
		return text(a)
	case "%":
		return fmt.Sprintf("%.0f %%", 100*number(a))
	case "times":
		if number(a) == 1 {
			return "once"
		}
		return text(a) + " times"
	case "size":
		return Size(int64(number(a)))
	case "bytes":
		return Size(int64(number(a)) >> 10)
	case "gbs":
		return strconv.FormatFloat(number(a)*(1<<20)/1e9, 'f', 1, 64)
	case "nodes":
		return set("node", a)
	case "cpus":
		return set("CPU", a)
	case "caches":
		return set("cache", a)
	case "for":
		return Duration(time.Duration(number(a)))
	case "seconds":
		return fmt.Sprintf("%.1f s", number(a)/float64(time.Second))
	case "q":
		return strconv.Quote(text(a))
	case "list":
		return join(a, ", ", ", ")
	case "and":
		return join(a, ", ", " and ")
	case "more":
		if s := join(a, " ", " "); s != "" {
			return " " + s
		}
		return ""
	}
	return fmt.Sprintf("%"+kind, number(a))
}

// set is a set in list format with its noun.
func set(noun string, a any) string {
	list := text(a)
	if list == "" {
		return "no " + noun
	}
	if several(list) {
		noun += "s"
	}
	return noun + " " + list
}

// several reports whether a list format has more than one member.
func several(list string) bool { return strings.ContainsAny(list, ",-") }

// text is a value as it stands.
func text(a any) string {
	switch a := a.(type) {
	case string:
		return a
	case Reason:
		return a.String()
	case float64:
		return strconv.FormatFloat(a, 'g', 4, 64)
	case []any:
		return join(a, ", ", ", ")
	}
	return fmt.Sprint(a)
}

// number is a value as a number, NaN when it is none.
func number(a any) float64 {
	switch a := a.(type) {
	case int64:
		return float64(a)
	case float64:
		return a
	case string: // what JSON has no number for
		if x, err := strconv.ParseFloat(a, 64); err == nil {
			return x
		}
	}
	return math.NaN()
}

// join is a list as text.
func join(a any, between, last string) string {
	list, ok := plain(a).([]any)
	if !ok {
		return text(a)
	}
	var b strings.Builder
	for i := range list {
		switch {
		case i == 0:
		case i == len(list)-1:
			b.WriteString(last)
		default:
			b.WriteString(between)
		}
		b.WriteString(text(plain(list[i])))
	}
	return b.String()
}

// plain returns a value as it comes back from JSON: string, int64, float64, bool, Reason or
// a list of these.
func plain(a any) any {
	switch a := a.(type) {
	case string, int64, bool, Reason, []any, nil:
		return a
	case int:
		return int64(a)
	case float64:
		if math.IsNaN(a) || math.IsInf(a, 0) {
			return strconv.FormatFloat(a, 'g', -1, 64)
		}
		return a
	case error:
		return a.Error()
	}
	switch v := reflect.ValueOf(a); v.Kind() {
	case reflect.String:
		return v.String()
	case reflect.Bool:
		return v.Bool()
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return v.Int()
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return int64(v.Uint())
	case reflect.Float32:
		return plain(v.Float())
	default:
		if s, ok := a.(fmt.Stringer); ok {
			return s.String()
		}
		if v.Kind() == reflect.Slice {
			list := make([]any, v.Len())
			for i := range list {
				list[i] = plain(v.Index(i).Interface())
			}
			return list
		}
	}
	return fmt.Sprint(a)
}
