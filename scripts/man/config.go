package main

import (
	_ "embed"
	"encoding"
	"fmt"
	"os"
	"reflect"
	"regexp"
	"strings"
	"time"

	"github.com/cpuguy83/go-md2man/v2/md2man"

	"github.com/homenode/homenode"
	"github.com/homenode/homenode/config"
)

// key is one key of the configuration file as docs/config.md shows it.
type key struct {
	path  string // balance.window
	name  string // window
	value string // the value shown
	says  []string
	depth int
	fixed bool // one of an example: it has no default
}

var (
	fenced   = regexp.MustCompile("(?s)```yaml\n(.*?)```")
	keyLine  = regexp.MustCompile(`^( *)(- )?([a-z_]+):\s*([^#]*?)\s*(?:# ?(.*))?$`)
	moreLine = regexp.MustCompile(`^ *# ?(.*)$`)
)

// keysOf reads the keys from the first YAML block of a page; that block is the one place
// where they are described.
func keysOf(page string) ([]key, error) {
	block := fenced.FindStringSubmatch(page)
	if block == nil {
		return nil, fmt.Errorf("no YAML block")
	}
	var keys []key
	var parents [4]string
	for _, line := range strings.Split(block[1], "\n") {
		if strings.TrimSpace(line) == "" {
			continue
		}
		if m := moreLine.FindStringSubmatch(line); m != nil && len(keys) > 0 {
			last := &keys[len(keys)-1]
			last.says = append(last.says, m[1])
			continue
		}
		m := keyLine.FindStringSubmatch(line)
		if m == nil {
			return nil, fmt.Errorf("not a line with a key: %q", line)
		}
		k := key{name: m[3], value: m[4], depth: (len(m[1]) + len(m[2])) / 2}
		k.fixed = len(m[2]) > 0 || k.depth > 1
		if k.depth >= len(parents) {
			return nil, fmt.Errorf("nested too deep: %q", line)
		}
		parents[k.depth] = k.name
		k.path = strings.Join(parents[:k.depth+1], ".")
		if k.depth == 2 { // an entry of a list: workloads[].match
			k.path = parents[0] + "[]." + k.name
		}
		if m[5] != "" {
			k.says = []string{m[5]}
		}
		keys = append(keys, k)
	}
	return keys, nil
}

// defaults is the default of every key by its path; those of sections and of entries of
// lists are "".
func defaults() map[string]string {
	out := map[string]string{}
	var walk func(prefix string, v reflect.Value)
	walk = func(prefix string, v reflect.Value) {
		for i := range v.NumField() {
			name := v.Type().Field(i).Tag.Get("yaml")
			if name == "" || v.Type().Field(i).Tag.Get("known") == "no" { // only told what it is called now
				continue
			}
			f := v.Field(i)
			_, text := f.Addr().Interface().(encoding.TextUnmarshaler)
			switch {
			case f.Kind() == reflect.Slice && f.Type().Elem().Kind() == reflect.Struct:
				out[prefix+name] = "[]"
				walk(prefix+name+"[].", reflect.New(f.Type().Elem()).Elem())
			case f.Kind() == reflect.Struct && !text:
				out[prefix+name] = ""
				walk(prefix+name+".", f)
			case strings.HasSuffix(prefix, "[]."):
				out[prefix+name] = ""
			default:
				out[prefix+name] = config.Written(f.Interface())
			}
		}
	}
	c := config.New()
	walk("", reflect.ValueOf(&c).Elem())
	return out
}

// sample is a configuration file that says nothing: every key with its default, commented
// out.
func sample(keys []key, defaults map[string]string) string {
	var b strings.Builder
	b.WriteString(`# /etc/homenode.yaml: what homenode does on this machine; see homenode.yaml(5).
# Every key may be left out; what stands here are the defaults. The daemon reads it when it
# starts, and again with: systemctl reload homenode. It changes nothing before mode says enforce.
`)
	for _, k := range keys {
		if k.depth == 0 {
			b.WriteString("\n")
		}
		value := defaults[k.path]
		indent := strings.Repeat("  ", k.depth)
		line := fmt.Sprintf("#%s%s: %s", indent, k.name, value)
		switch {
		case k.fixed && strings.HasSuffix(k.path, "[].match"):
			line = fmt.Sprintf("#%s- %s: %s", indent[2:], k.name, k.value)
		case k.fixed, value == "[]" && k.depth == 0: // an example, for there is no default
			line = fmt.Sprintf("#%s%s: %s", indent, k.name, k.value)
		}
		line = strings.TrimRight(line, " ")
		for i, s := range k.says {
			if i > 0 {
				fmt.Fprintf(&b, "%-26s %s\n", "#", s)
				continue
			}
			fmt.Fprintf(&b, "%-24s # %s\n", line, s)
		}
		if len(k.says) == 0 {
			fmt.Fprintln(&b, line)
		}
	}
	return b.String()
}

// configHead is the part of homenode.yaml(5) before its keys, a format for date and version in the Markdown of
// go-md2man.
//
//go:embed head.txt
var configHead string

// configPage is homenode.yaml(5) in roff.
func configPage(keys []key, defaults map[string]string, date time.Time) []byte {
	var b strings.Builder
	fmt.Fprintf(&b, configHead, date.Format("Jan 2006"), homenode.Version())
	for _, k := range keys {
		says := strings.Join(k.says, " ")
		if d := defaults[k.path]; d != "" {
			says = strings.TrimSpace(fmt.Sprintf("%s\n(default: %s)", says, d))
		}
		if says == "" {
			continue
		}
		says = strings.NewReplacer("*", `\*`, "_", `\_`, "<", `\<`).Replace(says)
		fmt.Fprintf(&b, "**%s**\n: %s\n\n", strings.ReplaceAll(k.path, "_", `\_`), says)
	}
	b.WriteString("# EXAMPLE\nAct, leave backups alone, and give a database CPUs of its own:\n\n" +
		"```\nmode: enforce\nmanage:\n  exclude: [\"/system.slice/backup*\"]\nworkloads:\n  - match: " +
		"\"/system.slice/postgresql*\"\n    class: dedicated\n    cpus: 8\n```\n\n" +
		"# FILES\n**/etc/homenode.yaml**, **/etc/homenode.d/\\*.yaml**, **/var/lib/homenode** (journal, history, " +
		"measurements)\n\n" +
		"# SEE ALSO\n**homenode(1)**, **homenode-config(1)**, **homenode-daemon(1)**, **cpuset(7)**\n")
	return md2man.Render([]byte(b.String()))
}

// configuration writes the manual page of the configuration file and a sample of it.
func configuration(page, manual, sampleFile string, date time.Time) error {
	text, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	keys, err := keysOf(string(text))
	if err != nil {
		return fmt.Errorf("%s: %w", page, err)
	}
	d := defaults()
	if err := os.WriteFile(manual, configPage(keys, d, date), 0o644); err != nil {
		return err
	}
	return os.WriteFile(sampleFile, []byte(sample(keys, d)), 0o644)
}
