package see

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/charmbracelet/x/ansi"
	"github.com/spf13/cobra"

	"github.com/homenode/homenode/api"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
	"github.com/homenode/homenode/ui/cli"
	"github.com/homenode/homenode/ui/figures"
	"github.com/homenode/homenode/ui/view"
)

// stat is memory by node, as numastat(8) has it.
type stat struct {
	Schema string `json:"schema"`
	// ID of the workload that was named; absent for the whole machine and for a bare PID
	Workload workload.ID `json:"workload,omitempty"`
	PIDs     []int       `json:"pids,omitempty"` // PIDs that were read; absent for the whole machine
	workload.Figures
	Unread []workload.Unread `json:"unread,omitempty"` // processes that could not be read and are not in the figures
}

func StatCommand(e *cli.Env) *cobra.Command {
	var asJSON bool
	var pid string
	c := &cobra.Command{
		Use:   "stat [PID|NAME]",
		Short: "Show memory by node: of the machine, of a process or of a workload",
		Long: `Without an argument: memory of each node, free and used, by kind; huge pages by
size; and how often memory was allocated on the requested node (hit) or on another
(miss, foreign). With a PID: memory of that process by node and kind. With any
other name of a workload (an ID of ` + "`homenode status`" + `, a guest, a cgroup): the sum
over its processes; shared memory counts once for each. Homenode searches any
other name in the command lines of processes.

A process that does not answer within 2 seconds is named and left out. Exit status
1 when nothing could be read.`,
		Example: "  homenode stat\n  homenode stat 1234\n  homenode stat /system.slice/redis.service --json",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if c.Flags().Changed("pid") {
				if len(args) > 0 {
					return cli.Usagef("-p %s and %s: say one of them", pid, args[0])
				}
				args = []string{pid}
			}
			s, err := statOf(c, e, args)
			if err != nil {
				return err
			}
			none := len(s.PIDs) > 0 && len(s.Unread) == len(s.PIDs)
			if asJSON {
				err = cli.PrintJSON(e.Stdout, s)
			} else {
				printStat(e, s, none)
			}
			if err == nil && none {
				err = cli.ErrNo
			}
			return err
		},
	}
	c.Flags().StringVarP(&pid, "pid", "p", "", "the same as the argument: PID or `NAME`")
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON (schema homenode-stat/1)")
	cli.StateDirFlag(c, e)
	return c
}

func statOf(c *cobra.Command, e *cli.Env, args []string) (s stat, err error) {
	s.Schema = "homenode-stat/1"
	if len(args) == 0 {
		s.Figures, err = e.Memory.Nodes()
		return s, err
	}
	pid, err := strconv.Atoi(args[0])
	if s.PIDs = []int{pid}; err != nil || pid <= 0 {
		b, done, err := cli.Connect(c, e)
		if err != nil {
			return s, err
		}
		defer done()
		x, err := b.Explain(cli.ContextOf(c), workload.ID(args[0]))
		if unknown := (*api.Error)(nil); errors.As(err, &unknown) && unknown.Code == api.NotFound && e.ByHand != nil {
			// Small processes are no workload, and numastat knows them by their command lines.
			if found, failed := e.ByHand.Commands(args[0]); failed == nil && len(found) > 0 {
				s.PIDs = slices.Sorted(maps.Keys(found))
				s.Figures, s.Unread = e.Memory.Processes(cli.ContextOf(c), s.PIDs)
				return s, nil
			}
		}
		if err != nil {
			return s, err
		}
		s.Workload, s.PIDs = x.Workload.ID, x.Workload.Processes
		if len(s.PIDs) == 0 {
			return s, cli.Nof("%s has no process now", s.Workload)
		}
	}
	s.Figures, s.Unread = e.Memory.Processes(cli.ContextOf(c), s.PIDs)
	return s, nil
}

func printStat(e *cli.Env, s stat, none bool) {
	p := e.Paint()
	if !none {
		printFigures(e, p, "MiB", s.Figures, workload.InKiB)
	}
	if slices.ContainsFunc(s.Rows, func(r workload.Figure) bool { return r.Unit == workload.InPages }) {
		fmt.Fprintln(e.Stdout)
		printFigures(e, p, "PAGES SINCE BOOT", s.Figures, workload.InPages)
	}
	const most = 5
	for _, u := range s.Unread[:min(len(s.Unread), most)] {
		fmt.Fprintf(e.Stdout, "%s process %d: %s\n", p.Warn("not read:"), u.PID, words.Printable(u.Why))
	}
	if more := len(s.Unread) - most; more > 0 {
		fmt.Fprintf(e.Stdout, "%s %d more\n", p.Warn("not read:"), more)
	}
}

// printFigures prints the rows of one unit. Nodes that the terminal has no room for come in
// a table below.
func printFigures(e *cli.Env, p view.Paint, heading string, f workload.Figures, unit string) {
	var rows []workload.Figure
	label := ansi.StringWidth(heading)
	for _, r := range f.Rows {
		if r.Unit == unit {
			rows = append(rows, r)
			label = max(label, ansi.StringWidth(r.Name))
		}
	}
	heads := make([]string, 0, len(f.Nodes)+1)
	for _, n := range f.Nodes {
		heads = append(heads, fmt.Sprintf("NODE %d", n))
	}
	columns := len(f.Nodes)
	if columns > 1 {
		heads, columns = append(heads, "TOTAL"), columns+1
	}
	all := slices.IndexFunc(rows, func(r workload.Figure) bool { return r.Name == "total" })
	cell := func(r *workload.Figure, i int) string {
		if i == len(f.Nodes) {
			return amount(r.Total(), unit)
		}
		n := r.ByNode[i]
		if r.Name == "free" && n >= 0 && all >= 0 && float64(n) < figures.LowFree*float64(rows[all].ByNode[i]) {
			return p.Warn(amount(n, unit))
		}
		return amount(n, unit)
	}
	for from := 0; from < columns; {
		used, to := label, from
		for ; to < columns; to++ {
			width := len(heads[to])
			for i := range rows {
				width = max(width, ansi.StringWidth(cell(&rows[i], to)))
			}
			if used += 2 + width; p.Width > 0 && used > p.Width && to > from {
				break
			}
		}
		t := view.NewTable(append([]string{heading}, rightAligned(heads[from:to])...)...)
		for i := range rows {
			cells := []string{rows[i].Name}
			for k := from; k < to; k++ {
				cells = append(cells, cell(&rows[i], k))
			}
			t.Row(cells...)
		}
		if from > 0 {
			fmt.Fprintln(e.Stdout)
		}
		t.Print(e.Stdout, p)
		from = to
	}
}

func rightAligned(heads []string) []string {
	out := make([]string, len(heads))
	for i, h := range heads {
		out[i] = ">" + strings.TrimPrefix(h, ">")
	}
	return out
}

// amount is MiB of KiB, to a tenth where that is small, or pages as they are.
func amount(n int64, unit string) string {
	switch {
	case n < 0:
		return "-"
	case unit == workload.InPages:
		return strconv.FormatInt(n, 10)
	case n == 0 || n >= 10<<10:
		return strconv.FormatInt(int64(topology.KiB(n)+512)>>10, 10)
	}
	return strconv.FormatFloat(max(0.1, float64(n)/1024), 'f', 1, 64)
}
