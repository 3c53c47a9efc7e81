package change

import (
	"cmp"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/ui/cli"
)

// configAnswer is the whole of a configuration.
type configAnswer struct {
	Schema string            `json:"schema"`
	Files  []string          `json:"files"`  // that were read; values of later ones replace those of earlier ones
	Values []cli.ConfigValue `json:"values"` // every key, in the order of homenode.yaml(5)
	Odd    []string          `json:"odd"`    // what does not fit this machine, a sentence each
}

func ConfigCommand(e *cli.Env) *cobra.Command {
	c := &cobra.Command{
		Use:     "config",
		Short:   "Check the configuration, or show it with its defaults",
		Example: "  homenode config check\n  homenode config show --changed",
		Args:    cobra.NoArgs,
		RunE:    cli.SayWhat,
	}
	c.AddCommand(configCheckCommand(e), configShowCommand(e))
	return c
}

func configCheckCommand(e *cli.Env) *cobra.Command {
	return &cobra.Command{
		Use:   "check [FILE]",
		Short: "Check a configuration file and its drop-ins as the daemon would",
		Long: `Reads a configuration file, or that of this machine, with its drop-ins, and
checks every value, the files that it names, and whether it fits this machine.
Nothing is changed. An error is one line with file, line and column, and exit
status 2. Use it before a restart or reload, and as validate: of Ansible.`,
		Example: "  homenode config check\n  homenode config check new.yaml && systemctl reload homenode",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			read, err := readConfig(e, args)
			if err != nil {
				return err
			}
			for _, odd := range read.Odd {
				fmt.Fprintf(e.Stdout, "note: %s\n", words.Printable(odd))
			}
			switch len(read.Files) {
			case 0:
				fmt.Fprintln(e.Stdout, "no configuration file: the defaults hold")
			case 1:
				fmt.Fprintf(e.Stdout, "%s: good\n", words.Printable(read.Files[0]))
			default:
				fmt.Fprintf(e.Stdout, "%s and %s: good\n", words.Printable(read.Files[0]),
					words.Count(len(read.Files)-1, "drop-in"))
			}
			return nil
		},
	}
}

func configShowCommand(e *cli.Env) *cobra.Command {
	var changed, asJSON bool
	c := &cobra.Command{
		Use:   "show [FILE]",
		Short: "Print every value and the place that gives it",
		Long: `Prints the whole configuration that a daemon would start or reload with: each
key with its value and, in a comment, the file and line that set it, or "default".
The output is a valid configuration file. Options of the daemon's command line
are not included.`,
		Example: "  homenode config show\n  homenode config show --changed",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			read, err := readConfig(e, args)
			if err != nil {
				return err
			}
			values := []cli.ConfigValue{}
			for _, v := range read.Values {
				if v.From != "" || !changed {
					values = append(values, v)
				}
			}
			if asJSON {
				return cli.PrintJSON(e.Stdout, configAnswer{"homenode-config/1", append([]string{}, read.Files...),
					values, append([]string{}, read.Odd...)})
			}
			if len(values) == 0 {
				fmt.Fprintln(e.Stdout, "# no key is set: the defaults hold")
			}
			printConfig(e.Stdout, values)
			return nil
		},
	}
	c.Flags().BoolVar(&changed, "changed", false, "only what files give")
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON (schema homenode-config/1)")
	return c
}

// readConfig reads the file that was named, or that of this machine.
func readConfig(e *cli.Env, args []string) (cli.Configuration, error) {
	if len(args) == 0 {
		return e.Config("")
	}
	if args[0] == "" {
		return cli.Configuration{}, cli.Usagef("the name of the file is empty")
	}
	defer e.Reading()() // a pipe may have nothing to say for ever
	return e.Config(args[0])
}

// printConfig writes values as YAML, each with the place that gives it as a comment.
func printConfig(w io.Writer, values []cli.ConfigValue) {
	var lines [][2]string
	width := 0
	var before []string
	for _, v := range values {
		path := strings.Split(strings.ReplaceAll(v.Key, "[", ".["), ".")
		same := 0
		for same < len(path)-1 && same < len(before) && path[same] == before[same] {
			same++
		}
		dash := false // the line is the first of an entry
		for i := same; i < len(path)-1; i++ {
			if strings.HasPrefix(path[i], "[") {
				dash = true
				continue
			}
			lines = append(lines, [2]string{strings.Repeat("  ", i) + path[i] + ":"})
		}
		line := path[len(path)-1] + ": " + words.Printable(v.Text)
		switch depth := len(path) - 1; {
		case dash:
			line = strings.Repeat("  ", depth-1) + "- " + line
		default:
			line = strings.Repeat("  ", depth) + line
		}
		lines = append(lines, [2]string{line, "# " + words.Printable(cmp.Or(v.From, "default"))})
		if len(line) <= 40 {
			width = max(width, len(line))
		}
		before = path
	}
	for _, l := range lines {
		fmt.Fprintln(w, strings.TrimRight(fmt.Sprintf("%-*s %s", width, l[0], l[1]), " "))
	}
}
