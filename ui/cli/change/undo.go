package change

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/homenode/homenode/api"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
	"github.com/homenode/homenode/ui/cli"
	"github.com/homenode/homenode/ui/view"
)

func UndoCommand(e *cli.Env) *cobra.Command {
	var asJSON, all, dryRun bool
	c := &cobra.Command{
		Use:   "undo (NAME | --all)",
		Short: "Restore the settings that homenode changed",
		Long: `Restores the original CPU sets, memory nodes and affinities, and leaves the
workload alone until ` + "`homenode resume`" + `. Pages stay where they are. Works with
and without a running daemon.

` + cli.NamesText,
		Example: "  homenode undo redis.service --dry-run\n  homenode undo --all",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			which, err := which(args, all)
			if err != nil {
				return err
			}
			which.DryRun = dryRun
			b, done, err := cli.ConnectUndo(c, e)
			if err != nil {
				return err
			}
			defer done()
			unheld, err := Undone(c, e, b, &which, asJSON)
			if !asJSON && !dryRun && (err == nil || errors.Is(err, cli.ErrNo)) && !unheld {
				back := "--all"
				if !which.All {
					back = words.Printable(string(which.ID))
				}
				fmt.Fprintf(e.Stdout, "left alone until `homenode resume %s`\n", back)
			}
			return err
		},
	}
	c.Flags().BoolVar(&all, "all", false, "every workload")
	c.Flags().BoolVar(&dryRun, "dry-run", false, "change nothing, show what would be restored")
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON (schema homenode-undo/2)")
	cli.StateDirFlag(c, e)
	return c
}

// Undone has one thing or all restored and says what became of it; a name in which becomes
// the ID.
func Undone(c *cobra.Command, e *cli.Env, b api.Backend, which *api.Which, asJSON bool) (unheld bool, err error) {
	done := cli.Waiting(e, "waiting until everything is restored; page moves under way end first")
	var scopes api.UndoResult
	if e.UndoScopes != nil {
		scopes, err = e.UndoScopes(cli.ContextOf(c), *which)
		if err == nil && scopes.Workload == "" && !which.All { // another name: which one it means is known there
			dry := *which
			dry.DryRun = true
			if r, _ := b.Undo(cli.ContextOf(c), dry); r.Workload != "" && r.Workload != which.ID {
				scopes, err = e.UndoScopes(cli.ContextOf(c), api.Which{ID: r.Workload, DryRun: which.DryRun})
			}
		}
		if err != nil {
			return false, err
		}
		which.ID = cmp.Or(scopes.Workload, which.ID)
	}
	r, err := b.Undo(cli.ContextOf(c), *which)
	r, err = withRuns(c, e, b, which, scopes, r, err)
	done()
	if err != nil {
		return false, err
	}
	which.ID = cmp.Or(r.Workload, which.ID)
	if asJSON {
		err = cli.PrintJSON(e.Stdout, r)
	} else {
		printUndo(e, r, which.DryRun)
	}
	if err == nil && len(r.Failed)+len(r.Deferred) > 0 {
		return r.Unheld, cli.ErrNo
	}
	return r.Unheld, err
}

func printUndo(e *cli.Env, r api.UndoResult, dryRun bool) {
	restored := "restored"
	if dryRun {
		restored = "would be restored"
	}
	p, r := e.Paint(), view.PlainAll(r)
	for _, x := range r.Restored {
		fmt.Fprintf(e.Stdout, "%s  %s %s: %s → %s\n", p.Good(restored), x.Kind, x.Path, x.New, words.OrAll(x.Old))
	}
	for _, x := range r.Unchanged {
		fmt.Fprintf(e.Stdout, "unchanged %s %s: already %s, its original value\n", x.Kind, x.Path, words.OrAll(x.Old))
	}
	for _, x := range r.Gone {
		fmt.Fprintf(e.Stdout, "gone      %s %s\n", x.Kind, x.Path)
	}
	for _, x := range r.Theirs {
		fmt.Fprintf(e.Stdout, "theirs    %s %s: set by another program since, not touched\n", x.Kind, x.Path)
	}
	for _, x := range r.Deferred {
		fmt.Fprintf(e.Stdout, "put off   %s %s: %s\n", x.Entry.Kind, x.Entry.Path, x.Error)
	}
	for _, x := range r.Failed {
		fmt.Fprintf(e.Stdout, "%s    %s %s: %s\n", p.Warn("failed"), x.Entry.Kind, x.Entry.Path, x.Error)
	}
	if len(r.Policies) > 0 {
		fmt.Fprintf(e.Stdout,
			"not restored: the memory policy of %s; only a process itself can change its own, and it goes when the "+
				"process ends\n", joined(r.Policies))
	}
	var parts []string
	for _, x := range []struct {
		n    int
		what string
	}{{len(r.Restored), restored}, {len(r.Unchanged), "unchanged"}, {len(r.Gone), "gone"},
		{len(r.Theirs), "set by others"}, {len(r.Deferred), "put off"}, {len(r.Failed), "failed"}} {
		if x.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", x.n, x.what))
		}
	}
	fmt.Fprintln(e.Stdout, cmp.Or(strings.Join(parts, ", "), "nothing to undo"))
}

// withRuns adds what `homenode run` has set without a daemon, and no journal has.
func withRuns(c *cobra.Command, e *cli.Env, b api.Backend, which *api.Which, scopes, r api.UndoResult,
	err error) (api.UndoResult, error) {
	_, daemon := b.(*api.Client)
	var refused *api.Error
	// what is the user's own is restored all the same
	unknown := errors.As(err, &refused) && (refused.Code == api.NotFound || refused.Code == api.Forbidden)
	if e.UndoRuns == nil || (err != nil && !unknown) {
		return r, err
	}
	more, bad := e.UndoRuns(cli.ContextOf(c), api.Which{ID: cmp.Or(r.Workload, which.ID), All: which.All,
		DryRun: which.DryRun}, daemon)
	more.Restored = append(scopes.Restored, more.Restored...)
	more.Theirs = append(scopes.Theirs, more.Theirs...)
	more.Failed = append(scopes.Failed, more.Failed...)
	n := len(more.Restored) + len(more.Theirs) + len(more.Failed)
	switch {
	case bad != nil && err == nil:
		return r, bad
	case n == 0:
		return r, err
	case err != nil: // there is nothing else
		r = api.UndoResult{Schema: "homenode-undo/2", Restored: []plan.Entry{}, Unchanged: []plan.Entry{},
			Gone: []plan.Entry{}, Theirs: []plan.Entry{},
			Deferred: []api.UndoFailure{}, Failed: []api.UndoFailure{}, Unheld: true}
	}
	r.Restored, r.Theirs = append(r.Restored, more.Restored...), append(r.Theirs, more.Theirs...)
	r.Failed, r.Policies = append(r.Failed, more.Failed...), append(r.Policies, more.Policies...)
	return r, nil
}

func joined(ids []workload.ID) string {
	words := make([]string, len(ids))
	for i, id := range ids {
		words[i] = string(id)
	}
	return strings.Join(words, ", ")
}

func ResumeCommand(e *cli.Env) *cobra.Command {
	var asJSON, all, dryRun bool
	c := &cobra.Command{
		Use:   "resume (NAME | --all)",
		Short: "Let homenode manage a workload again after undo",
		Long: `Ends the hold of ` + "`homenode undo`" + ` or ` + "`homenode move --cancel`" + `: the daemon places
the workload again.

` + cli.NamesText,
		Example: "  homenode resume redis.service\n  homenode resume --all",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			which, err := which(args, all)
			if err != nil {
				return err
			}
			b, done, err := cli.ConnectJournal(c, e)
			if err != nil {
				return err
			}
			defer done()
			which.DryRun = dryRun
			r, err := b.Resume(cli.ContextOf(c), which)
			if err != nil {
				return err
			}
			if asJSON {
				return cli.PrintJSON(e.Stdout, r)
			}
			_, err = fmt.Fprintln(e.Stdout, resumedWords(view.PlainAll(r), dryRun))
			return err
		},
	}
	c.Flags().BoolVar(&all, "all", false, "every workload")
	c.Flags().BoolVar(&dryRun, "dry-run", false, "change nothing, say what would be managed again")
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON (schema homenode-resume/2)")
	cli.StateDirFlag(c, e)
	return c
}

// resumedWords is what is managed again.
func resumedWords(r api.Resumed, dryRun bool) string {
	is, are := "is managed again", "are managed again"
	if dryRun {
		is, are = "would be managed again", "would be managed again"
	}
	switch {
	case r.All:
		return "everything " + is
	case len(r.Held) == 0:
		return "nothing was undone"
	case len(r.Held) == 1:
		return string(r.Held[0]) + " " + is
	}
	return words.List(r.Held) + " " + are
}

func which(args []string, all bool) (api.Which, error) {
	switch {
	case all && len(args) > 0:
		return api.Which{}, cli.Usagef("name a workload or say --all, not both")
	case all:
		return api.Which{All: true}, nil
	case len(args) == 0:
		return api.Which{}, cli.Usagef("name a workload (`homenode status` lists them) or say --all")
	}
	return api.Which{ID: workload.ID(args[0])}, cli.CheckName(args[0])
}
