package tree

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/homenode/homenode/core/topology/strict"
	"github.com/homenode/homenode/ui/cli/run"
)

// What pflag and cobra say of a wrong command line names their own functions and
// groups; these are the same facts in words of the command line.
var (
	badNumber = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^invalid argument ("(?:[^"\\]|\\.)*") for "([^"]*)" flag: strconv\.Parse(\w+): parsing .*: (.*)$`)
	})
	badTime = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^invalid argument ("(?:[^"\\]|\\.)*") for "([^"]*)" flag: time: .*$`)
	})
	bothGiven = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^if any flags in the group \[.*\] are set none of the others can be; \[(.*)\] were all set$`)
	})
	argCount = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^(?:accepts|requires) .* arg\(s\), (?:only )?received (\d+)$`)
	})
	noArgument = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^unknown command ("(?:[^"\\]|\\.)*") for`)
	})
	noFlag   = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^unknown flag: --(.*)$`) })
	noLetter = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^unknown shorthand flag: '(.)' in -(.*)$`)
	})
	neededFlag = sync.OnceValue(
		func() *regexp.Regexp { return regexp.MustCompile(`^required flag\(s\) (.*) not set$`) })
)

// badUsage is what is wrong with a command line, in words; ok is false for an
// error that is not about one.
func badUsage(c *cobra.Command, text string) (words string, ok bool) {
	if m := badNumber().FindStringSubmatch(text); m != nil {
		want := map[string]string{"Int": "a whole number", "Uint": "a whole number of 0 or more", "Float": "a number",
			"Bool": "true or false"}[m[3]]
		if m[4] == "value out of range" {
			want += " that is not so large"
		}
		return fmt.Sprintf("%s %s: want %s", flagName(m[2]), m[1], want), true
	}
	if m := badTime().FindStringSubmatch(text); m != nil {
		return fmt.Sprintf("%s %s: want a time with a unit, such as 2s", flagName(m[2]), m[1]), true
	}
	if m := bothGiven().FindStringSubmatch(text); m != nil {
		return "--" + strings.Join(strings.Fields(m[1]), " and --") + " do not go together", true
	}
	if m := argCount().FindStringSubmatch(text); m != nil {
		_, operands, _ := strings.Cut(c.Use, " ")
		return fmt.Sprintf("%s given; want `%s %s`", arguments(m[1]), c.CommandPath(), operands), true
	}
	if m := noArgument().FindStringSubmatch(text); m != nil && !c.HasAvailableSubCommands() {
		return "unexpected argument " + m[1], true
	}
	if m := noArgument().FindStringSubmatch(text); m != nil {
		if typed, err := strconv.Unquote(m[1]); err == nil {
			return fmt.Sprintf("unknown command %s%s", m[1], meant(c, typed)), true
		}
	}
	if m := noFlag().FindStringSubmatch(text); m != nil {
		var known []string
		each := func(f *pflag.Flag) {
			if !f.Hidden {
				known = append(known, f.Name)
			}
		}
		c.Flags().VisitAll(each)
		c.InheritedFlags().VisitAll(each)
		if near := strict.Nearest(m[1], known); near != "" {
			return fmt.Sprintf("unknown option --%s; did you mean --%s?", m[1], near), true
		}
		return "unknown option --" + m[1], true
	}
	if m := noLetter().FindStringSubmatch(text); m != nil {
		if strings.ContainsAny(m[1], "0123456789") { // --watch -1s: the value of the option before
			return fmt.Sprintf("-%s is no option; a value that begins with a dash goes with =, such as --option=-%[1]s",
				m[2]), true
		}
		return "unknown option -" + m[1], true
	}
	if m := run.NoValue.FindStringSubmatch(text); m != nil {
		return m[1] + " wants a value", true
	}
	if m := neededFlag().FindStringSubmatch(text); m != nil {
		names := strings.Split(strings.ReplaceAll(m[1], `"`, ""), ", ")
		return "--" + strings.Join(names, " and --") + " must be given", true
	}
	for _, begin := range []string{"unknown ", "invalid argument", "flag ", "bad flag"} {
		if strings.HasPrefix(text, begin) {
			return text, true
		}
	}
	return text, false
}

// habits is what people type by habit of other programs, for the command that does it here.
var habits = map[string]string{
	"ps": "status", "ls": "status", "list": "status", "show": "status", "htop": "top", "btop": "top", "watch": "top",
	"monitor": "top", "log": "history", "logs": "history", "events": "history",
	"exec": "run", "start": "run", "why": "explain", "inspect": "explain", "describe": "explain", "migrate": "move",
	"rollback": "undo", "revert": "undo", "restore": "undo", "lstopo": "topology",
	"check": "doctor", "bench": "probe", "reload": "config", "validate": "config check", "settings": "config show",
	"guest": "vm", "virsh": "vm", "simulate": "sim", "serve": "daemon",
}

// meant says which command was meant by one that is not there; "" when that is anybody's guess.
func meant(c *cobra.Command, typed string) string {
	if near, known := habits[strings.ToLower(typed)]; known && !c.HasParent() {
		return "; did you mean " + near + "?"
	}
	var names []string
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() || sub.Name() == "help" {
			names = append(names, sub.Name())
		}
	}
	if near := strict.Nearest(typed, names); near != "" {
		return "; did you mean " + near + "?"
	}
	return ""
}

// flagName leaves the long name of "-n, --name".
func flagName(s string) string { return s[strings.LastIndexByte(s, ' ')+1:] }

func arguments(n string) string {
	switch n {
	case "0":
		return "no argument"
	case "1":
		return "1 argument"
	}
	return n + " arguments"
}
