package tree

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/ui/cli"
	"github.com/homenode/homenode/ui/cli/change"
	"github.com/homenode/homenode/ui/cli/machine"
	"github.com/homenode/homenode/ui/cli/run"
	"github.com/homenode/homenode/ui/cli/see"
	"github.com/homenode/homenode/ui/cli/try"
	"github.com/homenode/homenode/ui/cli/vm"
	"github.com/homenode/homenode/ui/view"
)

// Main runs one command line and returns the exit status.
func Main(ctx context.Context, e *cli.Env, args []string) int {
	out, errs := view.NewOutput(e.Stdout, e.Getenv), view.NewOutput(e.Stderr, e.Getenv)
	defer errs.Close()
	own := *e
	own.Stdout = out
	own.Stderr = errs
	own.Ctx = ctx
	name := "homenode"
	if called := filepath.Base(e.Program); slices.Contains(run.Programs, called) {
		name, args = called, append([]string{called}, args...)
	}
	root := rootCommand(&own, args...)
	root.SetArgs(args)
	ran, err := root.ExecuteContextC(ctx)
	if exit := (*cli.Exit)(nil); err != nil && !errors.As(err, &exit) {
		if words, ok := badUsage(ran, err.Error()); ok {
			err = cli.Misused(ran, words)
		}
	}
	out.Close()
	if failed := out.Err(); failed != nil && (err == nil || errors.Is(err, cli.ErrNo) || errors.Is(err, failed)) {
		err = cli.Forbiddenf("write standard output: %w", failed)
	}
	if err == nil {
		return 0
	}
	code, text := cli.ExitStatus(err)
	if text != "" {
		fmt.Fprintf(errs, "%s: %s\n", name, words.Printable(cli.OneLine(text)))
	}
	return code
}

// rootCommand is the command tree. Of args that start a command it has that one alone: a
// command starts in milliseconds, and all the others would be most of them.
func rootCommand(e *cli.Env, args ...string) *cobra.Command {
	root := &cobra.Command{
		Use:   "homenode",
		Short: "Give every workload a home: the NUMA nodes that hold both its CPUs and its memory",
		Long: `Homenode gives every virtual machine, container and process on this server a
home: the NUMA node, or the few near nodes, that hold both its CPUs and its
memory. It changes nothing until you start it in enforce mode (daemon --mode
enforce), gives a reason for every action, and can undo everything.

Exit status of every command: 0 done, 1 the answer is no, 2 bad input, 3 not
permitted or not possible here. On a terminal a table leaves out columns that
do not fit, and names them; in a pipe it has all columns.`,
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
		// the command is wrong before its flags are
		if !c.HasParent() && len(args) > 0 && args[0] != "" && args[0][0] != '-' {
			words = fmt.Sprintf("unknown command %q%s", args[0], meant(c, args[0]))
		}
		return cli.Misused(c, words)
	})
	if len(args) > 0 && slices.Contains(run.Programs, args[0]) {
		root.AddCommand(run.ProgramCommand(e, args[0]))
		setHelp(e, root)
		finish(root)
		return root
	}
	if len(args) > 0 && args[0] == "run" {
		root.AddCommand(run.RunCommand(e))
		setHelp(e, root)
		finish(root)
		return root
	}
	root.AddCommand(
		change.DaemonCommand(e), see.StatusCommand(e), see.TopCommand(e), see.StatCommand(e), see.ExplainCommand(e),
		see.HistoryCommand(e), see.ReportCommand(e), see.FleetCommand(e),
		change.UndoCommand(e), change.ResumeCommand(e), run.RunCommand(e), change.MoveCommand(e), see.MetricsCommand(e),
		versionCommand(e), change.ConfigCommand(e),
		machine.TopologyCommand(e), machine.GatherCommand(e), try.PlanCommand(e), machine.ProbeCommand(e),
		machine.DoctorCommand(e), try.SimCommand(e), try.DemoCommand(e), try.ReplayCommand(e), vm.Command(e),
		machine.HostCommand(e), vm.OpenStackCommand(e), change.ShareCommand(e), try.TrialCommand(e),
	)
	for _, name := range run.Programs {
		root.AddCommand(run.ProgramCommand(e, name))
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
	c.Long = "Write the script with which a shell completes homenode's commands, options and\ntheir values. In bash " +
		"it needs the package bash-completion."
	c.Example = "  source <(homenode completion bash)"
	c.Args = func(c *cobra.Command, args []string) error {
		if len(args) > 0 {
			return cli.Misused(c, fmt.Sprintf("no shell %q", args[0]))
		}
		return nil
	}
	c.RunE = cli.SayWhat
	for _, shell := range c.Commands() {
		name := shell.Name()
		into := map[string]string{"bash": "/usr/share/bash-completion/completions/homenode",
			"zsh":  "/usr/share/zsh/site-functions/_homenode",
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
			err = cli.Misused(c, "--"+f.Name+" is empty")
		}
	})
	return err
}

// versionAnswer is the version of this program.
type versionAnswer struct {
	Schema  string `json:"schema"`
	Version string `json:"version"` // release such as 1.2.3, or the commit where it is none
}

func versionCommand(e *cli.Env) *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use: "version", Short: "Print the version", Args: cobra.NoArgs,
		Example: "  homenode version",
		RunE: func(*cobra.Command, []string) error {
			if asJSON {
				return cli.PrintJSON(e.Stdout, versionAnswer{"homenode-version/1", e.Version})
			}
			_, err := fmt.Fprintln(e.Stdout, e.Version)
			return err
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON (schema homenode-version/1)")
	return c
}
