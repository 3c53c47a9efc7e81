package tree

import (
	"bytes"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"
	"github.com/spf13/cobra"

	"github.com/homenode/homenode/ui/cli"
	"github.com/homenode/homenode/ui/view"
)

// everyCommand calls f for each command of the tree.
func everyCommand(f func(c *cobra.Command)) {
	var each func(c *cobra.Command)
	each = func(c *cobra.Command) {
		f(c)
		for _, sub := range c.Commands() {
			each(sub)
		}
	}
	each(Command())
}

// The help of every command fits the terminal, an example too at 80 columns, and has an example
// that begins with its own name; no text has a mark of the flag library.
func TestHelp(t *testing.T) {
	everyCommand(func(c *cobra.Command) {
		if c.Name() == "help" && c.Parent() != c.Root() {
			return
		}
		for _, width := range []int{0, 60, 80, 200} {
			for line := range strings.Lines(helpText(c, view.Paint{Width: width})) {
				most := width
				if width == 0 {
					most = 80
				}
				if n := ansi.StringWidth(strings.TrimSuffix(line, "\n")); n > most && width != 60 {
					t.Errorf("%s, %d columns: %d: %s", c.CommandPath(), width, n, line)
				}
			}
		}
		if !strings.Contains(c.Example, c.CommandPath()) {
			t.Errorf("%s has no example", c.CommandPath())
		}
		if strings.ContainsAny(c.Short, "`.") {
			t.Errorf("%s: %q", c.CommandPath(), c.Short)
		}
		if c.Parent() == c.Root() && c.GroupID == "" {
			t.Errorf("%s is in no group", c.CommandPath())
		}
	})
}

// What flags take has one name each, and it does not stand twice.
func TestFlagsSayWhatTheyTake(t *testing.T) {
	names := strings.Fields("CLASS COLUMN CPUS DEVICE DRIVES DURATION FILE FLAVOR FOLDER FORMAT HOST HOW ID KIND LIST MAC MIX MODE N NAME NAMES PATTERN WHEN NODE NODES NODE:SIZE:COUNT " +
		"PAGES PARTITION PERCENT POLICIES POLICY RATIO SHARE SIZE SLICE SOCKET STATE STATES UNITS WHERE CPU DISK NIC 0|1 SCENARIO ORDER USER ARCHITECTURE UUID TEXT ADDRESS TIER MODEL CONSOLE " +
		"CPUS[:MIB] NAMES [NAME=]COMMAND [NAME=]PROMQL [NAME=]PATH:REGEX NAME:PERCENT URL SEED ARMS GOAL")
	everyCommand(func(c *cobra.Command) {
		for _, f := range Options(c) {
			takes := Takes(f)
			switch {
			case strings.Contains(f.Usage, "`"):
				t.Errorf("%s --%s: %q", c.CommandPath(), f.Name, f.Usage)
			case (takes == "") != (f.Value.Type() == "bool"):
				t.Errorf("%s --%s takes %q", c.CommandPath(), f.Name, takes)
			case takes != "" && !slices.Contains(names, takes):
				t.Errorf("%s --%s takes %q, which is none of %q", c.CommandPath(), f.Name, takes, names)
			case strings.HasPrefix(f.Usage, takes+":"):
				t.Errorf("%s --%s: %q", c.CommandPath(), f.Name, f.Usage)
			}
		}
	})
}

// --socket is for those who ask a daemon.
func TestSocketIsForThoseWhoUseIt(t *testing.T) {
	without := regexp.MustCompile(`^homenode( (topology|gather|sim|demo|fleet|fleet fit|replay|version|help|doctor|probe|probe .*|vm|vm flavors|host|host report|openstack|share|config|config .*|numactl|numastat|taskset|migratepages|completion|completion .*))?$`)
	everyCommand(func(c *cobra.Command) {
		if has := c.Flags().Lookup("socket") != nil; has == without.MatchString(c.CommandPath()) {
			t.Errorf("%s: --socket %v", c.CommandPath(), has)
		}
	})
}

// A completion script is a file for every user: the same whatever the language of who writes it.
func TestCompletionInEveryLanguage(t *testing.T) {
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		var scripts []string
		for _, locale := range []string{"C", "C.UTF-8"} {
			var stdout, stderr bytes.Buffer
			e := &cli.Env{Stdin: strings.NewReader(""), Stdout: &stdout, Stderr: &stderr, Getenv: func(name string) string {
				return map[string]string{"LC_ALL": locale, "COLUMNS": "40"}[name]
			}}
			if code := Main(t.Context(), e, []string{"completion", shell}); code != 0 {
				t.Fatalf("%s: exit status %d: %s", shell, code, &stderr)
			}
			scripts = append(scripts, stdout.String())
		}
		if scripts[0] != scripts[1] {
			t.Errorf("%s: another script in the locale C than in C.UTF-8", shell)
		}
	}
}

// Completion descriptions and unknown shells.
func TestCompletion(t *testing.T) {
	out, errs, code := runMain(t, nil, "", "completion", "foo")
	if code != cli.ExitUsage || out != "" || !strings.Contains(errs, `no shell "foo"`) {
		t.Errorf("%d: %s%s", code, out, errs)
	}
	for _, args := range [][]string{{"__complete", "run", "--"}, {"__complete", "vm", ""}, {"__complete", "plan", "--"}} {
		if out, _, _ := runMain(t, nil, "", args...); strings.Contains(out, "`") || !strings.Contains(out, "\t") {
			t.Errorf("%q: %s", args, out)
		}
	}
}
