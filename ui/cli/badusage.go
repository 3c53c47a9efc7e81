package cli

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/spf13/cobra"
)

// What pflag and cobra say of a wrong command line names their own functions and
// groups; these are the same facts in words of the command line.
var (
	badNumber  = regexp.MustCompile(`^invalid argument ("(?:[^"\\]|\\.)*") for "([^"]*)" flag: strconv\.Parse(\w+): parsing .*: (.*)$`)
	badTime    = regexp.MustCompile(`^invalid argument ("(?:[^"\\]|\\.)*") for "([^"]*)" flag: time: .*$`)
	bothGiven  = regexp.MustCompile(`^if any flags in the group \[.*\] are set none of the others can be; \[(.*)\] were all set$`)
	argCount   = regexp.MustCompile(`^(?:accepts|requires) .* arg\(s\), (?:only )?received (\d+)$`)
	noArgument = regexp.MustCompile(`^unknown command ("(?:[^"\\]|\\.)*") for`)
	neededFlag = regexp.MustCompile(`^required flag\(s\) (.*) not set$`)
)

// badUsage is what is wrong with a command line, in words; ok is false for an
// error that is not about one.
func badUsage(c *cobra.Command, text string) (words string, ok bool) {
	if m := badNumber.FindStringSubmatch(text); m != nil {
		want := map[string]string{"Int": "a whole number", "Uint": "a whole number of 0 or more", "Float": "a number", "Bool": "true or false"}[m[3]]
		if m[4] == "value out of range" {
			want += " that is not so large"
		}
		return fmt.Sprintf("%s %s: want %s", flagName(m[2]), m[1], want), true
	}
	if m := badTime.FindStringSubmatch(text); m != nil {
		return fmt.Sprintf("%s %s: want a time with a unit, such as 2s", flagName(m[2]), m[1]), true
	}
	if m := bothGiven.FindStringSubmatch(text); m != nil {
		return "--" + strings.Join(strings.Fields(m[1]), " and --") + " do not go together", true
	}
	if m := argCount.FindStringSubmatch(text); m != nil {
		_, operands, _ := strings.Cut(c.Use, " ")
		return fmt.Sprintf("%s given; want `%s %s`", arguments(m[1]), c.CommandPath(), operands), true
	}
	if m := noArgument.FindStringSubmatch(text); m != nil && !c.HasAvailableSubCommands() {
		return "unexpected argument " + m[1], true
	}
	if m := neededFlag.FindStringSubmatch(text); m != nil {
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
