package cli

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/ui/view"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Main runs one command line and returns the exit status.
func Main(ctx context.Context, e *Env, args []string) int {
	out, errs := view.NewOutput(e.Stdout, e.Getenv), view.NewOutput(e.Stderr, e.Getenv)
	defer errs.Close()
	own := *e
	own.Stdout, own.Stderr, own.ctx = out, errs, ctx
	name := "homenode"
	if called := filepath.Base(e.Program); slices.Contains(programs, called) {
		name, args = called, append([]string{called}, args...)
	}
	root := rootCommand(&own, args...)
	root.SetArgs(args)
	ran, err := root.ExecuteContextC(ctx)
	if exit := (*exitError)(nil); err != nil && !errors.As(err, &exit) {
		if words, ok := badUsage(ran, err.Error()); ok {
			err = misused(ran, words)
		}
	}
	out.Close()
	if failed := out.Err(); failed != nil && (err == nil || errors.Is(err, errNo) || errors.Is(err, failed)) {
		err = forbiddenErrorf("write standard output: %w", failed)
	}
	if err == nil {
		return 0
	}
	code, text := status(err)
	if text != "" {
		fmt.Fprintf(errs, "%s: %s\n", name, words.Printable(oneLine(text)))
	}
	return code
}

// rootCommand is the command tree. Of args that start a command it has that one alone: a
// command starts in milliseconds, and all the others would be most of them.
func rootCommand(e *Env, args ...string) *cobra.Command {
	root := &cobra.Command{
		Use:   "homenode",
		Short: "Give every workload a home: the NUMA nodes that hold both its CPUs and its memory",
		Long: `Homenode gives every virtual machine, container and process on this server a
home: the NUMA node, or the few near nodes, that hold both its CPUs and its
memory. It changes nothing until told to (daemon --mode enforce), says why for
everything it does, and can undo all of it.

Exit status of every command: 0 done, 1 the answer is no, 2 bad input, 3 not
permitted or not possible here. On a terminal a table leaves out the columns
that do not fit, and says which; in a pipe it is whole.`,
		Example: `  homenode status
  homenode doctor
  homenode run --cpus 4 --memory 8GiB -- redis-server`,
		Version:       e.Version,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.NoArgs,
		RunE:          func(c *cobra.Command, _ []string) error { return c.Help() },

		PersistentPreRunE: func(c *cobra.Command, _ []string) error { return noEmptyFlag(c) },
	}
	root.SetVersionTemplate("{{.Version}}\n")
	root.Flags().BoolP("version", "v", false, "print the version")
	root.SetHelpCommand(helpCommand())
	root.SetOut(e.Stdout)
	root.SetErr(e.Stderr)
	root.SetIn(e.Stdin)
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		words, _ := badUsage(c, err.Error())
		if !c.HasParent() && len(args) > 0 && args[0] != "" && args[0][0] != '-' { // the command is wrong before its flags are
			words = fmt.Sprintf("unknown command %q%s", args[0], meant(c, args[0]))
		}
		return misused(c, words)
	})
	if len(args) > 0 && slices.Contains(programs, args[0]) {
		root.AddCommand(programCommand(e, args[0]))
		setHelp(e, root)
		finish(root)
		return root
	}
	if len(args) > 0 && args[0] == "run" {
		root.AddCommand(runCommand(e))
		setHelp(e, root)
		finish(root)
		return root
	}
	root.AddCommand(
		daemonCommand(e), statusCommand(e), topCommand(e), statCommand(e), explainCommand(e), historyCommand(e), reportCommand(e), fleetCommand(e),
		undoCommand(e), resumeCommand(e), runCommand(e), moveCommand(e), metricsCommand(e), versionCommand(e), configCommand(e),
		topologyCommand(e), gatherCommand(e), planCommand(e), probeCommand(e), doctorCommand(e), simCommand(e), demoCommand(e), replayCommand(e), vmCommand(e), hostCommand(e), openstackCommand(e), shareCommand(e), trialCommand(e),
	)
	for _, name := range programs {
		root.AddCommand(programCommand(e, name))
	}
	root.InitDefaultHelpCmd()
	root.SetOut(view.Raw(e.Stdout)) // kept by the commands for scripts, which are not text for a terminal
	root.InitDefaultCompletionCmd()
	root.SetOut(e.Stdout)
	if completion, _, err := root.Find([]string{"completion"}); err == nil {
		describeCompletion(completion)
	}
	setHelp(e, root)
	finish(root)
	complete(e, root)
	return root
}

// describeCompletion says in words of this system what the library's command does.
func describeCompletion(c *cobra.Command) {
	c.Short = "Write the completion script for a shell"
	c.Long = "Write the script with which a shell completes homenode's commands, options and\ntheir values. In bash it needs the package bash-completion."
	c.Example = "  source <(homenode completion bash)"
	c.Args = func(c *cobra.Command, args []string) error {
		if len(args) > 0 {
			return misused(c, fmt.Sprintf("no shell %q", args[0]))
		}
		return nil
	}
	c.RunE = sayWhat
	for _, shell := range c.Commands() {
		name := shell.Name()
		into := map[string]string{"bash": "/usr/share/bash-completion/completions/homenode", "zsh": "/usr/share/zsh/site-functions/_homenode",
			"fish": "/usr/share/fish/vendor_completions.d/homenode.fish"}[name]
		shell.Short = "Write the script for " + name
		shell.Long = ""
		shell.Example = "  homenode completion " + name
		if into != "" {
			shell.Example += " > " + into
		}
	}
}

// noEmptyFlag refuses a flag that is given with nothing: in a script that is a variable that
// is not set.
func noEmptyFlag(c *cobra.Command) (err error) {
	c.Flags().Visit(func(f *pflag.Flag) {
		if v := f.Value.String(); err == nil && slices.Contains([]string{"", "[]", `[""]`}, v) {
			err = misused(c, "--"+f.Name+" is empty")
		}
	})
	return err
}

// versionAnswer is the version of this program.
type versionAnswer struct {
	Schema  string `json:"schema"`
	Version string `json:"version"` // release such as 1.2.3, or the commit where it is none
}

func versionCommand(e *Env) *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use: "version", Short: "Print the version", Args: cobra.NoArgs,
		Example: "  homenode version",
		RunE: func(*cobra.Command, []string) error {
			if asJSON {
				return printJSON(e.Stdout, versionAnswer{"homenode-version/1", e.Version})
			}
			_, err := fmt.Fprintln(e.Stdout, e.Version)
			return err
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON (schema homenode-version/1)")
	return c
}
