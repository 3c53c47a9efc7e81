package tree

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/homenode/homenode/ui/cli"
	"github.com/homenode/homenode/ui/view"
)

// groups is the commands as an operator looks for them.
var groups = []struct {
	title    string
	commands []string
}{
	{"See workloads and their homes", []string{"status", "top", "stat", "explain", "history", "report", "fleet",
		"metrics"}},
	{"Place, move, restore", []string{"run", "share", "move", "undo", "resume", "daemon", "config"}},
	{"The machine", []string{"topology", "doctor", "probe", "host", "gather"}},
	{"Virtual machines", []string{"vm", "openstack"}},
	{"In the words of other programs", []string{"numactl", "taskset", "numastat", "migratepages", "numad"}},
	{"Try things out", []string{"demo", "trial", "plan", "sim", "replay"}},
	{"About this program", []string{"help", "version", "completion"}},
}

// metavar is the annotation with the name of what a flag takes.
const metavar = "metavar"

// byName is what flags take whose text does not say it.
var byName = map[string]string{
	"budget": "DURATION", "class": "CLASS", "format": "FORMAT", "from": "WHERE", "importance": "N",
	"interleave": "NODES", "iops": "N", "ksm": "0|1", "line-on": "WHERE",
	"memory": "SIZE", "mix": "MIX", "mode": "MODE", "name": "NAME", "overcommit": "RATIO", "packing": "HOW",
	"pages": "PAGES", "period": "DURATION", "since": "DURATION", "sort": "COLUMN",
	"thp": "MODE", "weighted-interleave": "NODES", "within": "DURATION",
}

// oneName is the one name for things that flags call by several.
var oneName = map[string]string{"DIR": "FOLDER", "JSONFILE": "FILE", "XMLFILE": "FILE", "TIME": "DURATION",
	"NUMBER": "N", "LEVEL": "N", "PART": "SHARE"}

// byType is what is left, by the type of the value.
var byType = map[string]string{"string": "TEXT", "int": "N", "int64": "N", "uint64": "N", "float64": "N",
	"duration": "DURATION", "stringSlice": "LIST", "stringArray": "TEXT"}

// Takes is what a flag takes, such as FILE; "" for one that takes nothing.
func Takes(f *pflag.Flag) string {
	if a := f.Annotations[metavar]; len(a) > 0 {
		return a[0]
	}
	return ""
}

// finish gives every command of the tree its group, and every flag the name of what it takes
// and a text without marks, which shells print as they are when they complete.
func finish(root *cobra.Command) {
	for i, g := range groups {
		id := fmt.Sprint(i)
		root.AddGroup(&cobra.Group{ID: id, Title: g.title})
		for _, c := range root.Commands() {
			if slices.Contains(g.commands, c.Name()) {
				c.GroupID = id
			}
		}
	}
	var each func(c *cobra.Command)
	each = func(c *cobra.Command) {
		for _, set := range []*pflag.FlagSet{c.Flags(), c.PersistentFlags()} {
			set.VisitAll(finishFlag)
		}
		for _, sub := range c.Commands() {
			each(sub)
		}
	}
	each(root)
}

var quoted = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile("`([^`]*)`") })

func finishFlag(f *pflag.Flag) {
	if f.Annotations[metavar] != nil {
		return
	}
	name := ""
	if m := quoted().FindStringSubmatch(f.Usage); m != nil && f.Value.Type() != "bool" {
		name = strings.ToUpper(m[1])
		name = cmp.Or(oneName[name], name)
		f.Usage = strings.Replace(f.Usage, m[0], m[1], 1)
		if m[1] == strings.ToUpper(m[1]) {
			f.Usage = strings.Replace(f.Usage, m[1], name, 1)
		}
		f.Usage = strings.TrimPrefix(f.Usage, name+": ")
	} else if f.Value.Type() != "bool" {
		name = cmp.Or(byName[f.Name], byType[f.Value.Type()])
	}
	f.Usage = strings.ReplaceAll(f.Usage, "`", "")
	if f.Annotations == nil {
		f.Annotations = map[string][]string{}
	}
	f.Annotations[metavar] = []string{name}
}

// Default is the value that a flag has when it is not given, "" when that says nothing.
func Default(f *pflag.Flag) string {
	switch f.DefValue {
	case "", "0", "-1", "0s", "false", "[]":
		return ""
	}
	if strings.Contains(f.Usage, "default") {
		return ""
	}
	return strings.Trim(f.DefValue, "[]")
}

// Options is the flags of a command, those of the commands above it too, but for --help.
func Options(c *cobra.Command) []*pflag.Flag {
	var out []*pflag.Flag
	each := func(f *pflag.Flag) {
		if !f.Hidden && f.Name != "help" && !slices.Contains(out, f) {
			out = append(out, f)
		}
	}
	c.InitDefaultHelpFlag()
	c.LocalFlags().VisitAll(each)
	c.InheritedFlags().VisitAll(each)
	return out
}

// OptionName is a flag as one writes it: "-n, --name NAME".
func OptionName(f *pflag.Flag) string {
	s := "--" + f.Name
	if f.Shorthand != "" {
		s = "-" + f.Shorthand + ", " + s
	}
	return strings.TrimSpace(s + " " + Takes(f))
}

// helpText is what --help prints of a command, for a terminal of p.
func helpText(c *cobra.Command, p view.Paint) string {
	p.Width = cmp.Or(p.Width, 80)
	var b strings.Builder
	paragraphs(&b, p, cmp.Or(c.Long, c.Short+"."))
	fmt.Fprintf(&b, "\n%s\n", p.Bold("Usage"))
	if c.Runnable() && (!c.HasAvailableSubCommands() || strings.Contains(c.Use, " ")) { // it takes words of its own
		fmt.Fprintf(&b, "  %s\n", c.UseLine())
	}
	if !c.Runnable() || c.HasAvailableSubCommands() {
		fmt.Fprintf(&b, "  %s COMMAND [flags]\n", c.CommandPath())
	}
	for _, g := range c.Groups() {
		list(&b, p, g.Title, commands(c, g.ID))
	}
	list(&b, p, "Commands", commands(c, ""))
	var options [][2]string
	all := Options(c)
	short := slices.ContainsFunc(all, func(f *pflag.Flag) bool { return f.Shorthand != "" })
	for _, f := range all {
		text := f.Usage
		if d := Default(f); d != "" {
			text += " (default " + d + ")"
		}
		name := OptionName(f)
		if short && f.Shorthand == "" {
			name = "    " + name
		}
		options = append(options, [2]string{name, text})
	}
	list(&b, p, "Options", options)
	if c.HasExample() {
		fmt.Fprintf(&b, "\n%s\n%s\n", p.Bold("Examples"), c.Example)
	}
	if c.HasAvailableSubCommands() {
		fmt.Fprintf(&b, "\n%s COMMAND --help explains a command.\n", c.CommandPath())
		if !c.HasParent() {
			fmt.Fprintf(&b, "%s help topics lists short texts, such as classes, names and limits.\n", c.CommandPath())
		}
	}
	return b.String()
}

// commands is those of a group, which is a place in groups, with what they do.
func commands(c *cobra.Command, group string) [][2]string {
	var out [][2]string
	for _, sub := range c.Commands() {
		if sub.GroupID == group && (sub.IsAvailableCommand() || sub.Name() == "help") {
			out = append(out, [2]string{sub.Name(), sub.Short})
		}
	}
	if i, err := strconv.Atoi(group); err == nil {
		order := groups[i].commands
		slices.SortStableFunc(out,
			func(a, b [2]string) int { return slices.Index(order, a[0]) - slices.Index(order, b[0]) })
	}
	return out
}

// list is names with what they are, the texts in a column of their own.
func list(b *strings.Builder, p view.Paint, title string, rows [][2]string) {
	if len(rows) == 0 {
		return
	}
	fmt.Fprintf(b, "\n%s\n", p.Bold(title))
	const most = 28 // a longer name has a line of its own
	column := 0
	for _, r := range rows {
		if n := len(r[0]) + 4; n <= most {
			column = max(column, n)
		}
	}
	column = cmp.Or(column, most)
	for _, r := range rows {
		name := "  " + r[0]
		if len(name)+2 > column {
			fmt.Fprintln(b, name)
			name = ""
		}
		fmt.Fprintf(b, "%-*s%s\n", column, name, p.Hang(r[1], column))
	}
}

// paragraphs is text whose lines without an indent are filled anew; all others stand as they are.
func paragraphs(b *strings.Builder, p view.Paint, text string) {
	for i, par := range strings.Split(text, "\n\n") {
		if i > 0 {
			fmt.Fprintln(b)
		}
		var fill []string
		for _, line := range append(strings.Split(par, "\n"), "") {
			if line != "" && line[0] != ' ' {
				fill = append(fill, line)
				continue
			}
			if fill != nil {
				p.Fill(b, strings.Join(fill, " "))
				fill = nil
			}
			if line != "" {
				fmt.Fprintln(b, line)
			}
		}
	}
}

// setHelp has all commands of the tree print their help, and what is bad usage, by helpText.
func setHelp(e *cli.Env, root *cobra.Command) {
	root.SetHelpFunc(func(c *cobra.Command, _ []string) { fmt.Fprint(e.Stdout, helpText(c, e.Paint())) })
	root.SetUsageFunc(func(c *cobra.Command) error {
		_, err := fmt.Fprint(e.Stderr, helpText(c, e.Paint()))
		return err
	})
}
