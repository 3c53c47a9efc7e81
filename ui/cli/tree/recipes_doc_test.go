package tree

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/homenode/homenode/api"
	"github.com/homenode/homenode/ui/cli"
	"github.com/homenode/homenode/ui/cli/run"
)

// begins is what may stand in front of a command line of a page: a prompt, or a launcher.
var begins = regexp.MustCompile(`(?m)(?:^[$#] |^ExecStart=/usr/bin/)(homenode .*)$|\bexec (homenode .*)'$|` + "`(homenode [^`]+)`")

// TestRecipes: each line of the pages below is one that the commands take, with its values: unknown flags, sizes that
// are none, nodes that are no list and missing operands are errors.
func TestRecipes(t *testing.T) {
	for _, page := range []string{"recipes", "coming-from"} {
		source, err := os.ReadFile("../../../docs/" + page + ".md")
		if err != nil {
			t.Fatal(err)
		}
		lines := begins.FindAllStringSubmatch(string(source), -1)
		if least := map[string]int{"recipes": 15, "coming-from": 5}[page]; len(lines) < least {
			t.Errorf("%s: only %d lines found", page, len(lines))
		}
		for _, m := range lines {
			line := m[1] + m[2] + m[3]
			if why := taken(line); why != nil {
				t.Errorf("%s: %q: %v", page, line, why)
			}
		}
	}
	for _, bad := range []string{"homenode run --cpu 8 -- postgres", "homenode run --cpus many -- postgres", "homenode run --memory 8Gigs -- postgres", "homenode run --class best -- make", "homenode run --cpus 2", "homenode shares on"} {
		if taken(bad) == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}

var (
	remark = regexp.MustCompile(`  +#.*$`)
	wordOf = regexp.MustCompile(`'[^']*'|"[^"]*"|\S+`)
)

// taken returns why a command line is none; nothing is run. Shell variables stand for a number, capitals for a name.
func taken(line string) error {
	var args []string
	for _, w := range wordOf.FindAllString(remark.ReplaceAllString(line, ""), -1)[1:] {
		if w == "|" || w == ">" {
			break
		}
		if strings.HasPrefix(w, "$") {
			w = "0"
		}
		args = append(args, strings.Trim(w, `'"`))
	}
	root := rootCommand(&cli.Env{Stdout: &strings.Builder{}, Stderr: &strings.Builder{}, Getenv: func(string) string { return "" }})
	c, rest, err := root.Find(args)
	if err != nil {
		return err
	}
	if c == root {
		return cli.Usagef("no command in %q", line)
	}
	if err := c.ParseFlags(rest); err != nil {
		return err
	}
	if strings.TrimSpace(line) == c.CommandPath() {
		return nil // a sentence that names the command
	}
	if c.Args != nil {
		if err := c.Args(c, c.Flags().Args()); err != nil {
			return err
		}
	}
	return values(c)
}

// values checks what parsing leaves to the command.
func values(c *cobra.Command) error {
	if c.Name() != "run" || c.Parent().HasParent() {
		return nil
	}
	flags := c.Flags()
	class, _ := flags.GetString("class")
	tier, _ := flags.GetString("tier")
	memory, _ := flags.GetString("memory")
	near, err := flags.GetStringArray("near")
	if err != nil {
		return err
	}
	if _, err := cli.ParseNear(near); err != nil {
		return err
	}
	if show, _ := flags.GetBool("show"); show {
		return nil
	}
	if flags.NArg() == 0 {
		return cli.Usagef("no command to run")
	}
	cpus, err := flags.GetInt("cpus")
	if err != nil {
		return err
	}
	return run.Fill(&api.Want{CPUs: cpus}, class, tier, memory, flags.Arg(0))
}
