package machine

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/homenode/homenode/core/doctor"
	"github.com/homenode/homenode/core/measure"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/ui/cli"
	"github.com/homenode/homenode/ui/heat"
	"github.com/homenode/homenode/ui/view"
)

func DoctorCommand(e *cli.Env) *cobra.Command {
	var root, replay, html, bundle string
	var noMeasure, asJSON, ascii bool
	req := measure.Request{CPU: -1, Node: -1, LoadedFrom: -1, LoadedTo: -1, Seed: 1}
	c := &cobra.Command{
		Use:   "doctor",
		Short: "Check this machine's NUMA setup, and give advice",
		Long: `Reports the state of this machine's NUMA: exposed, hidden by the kernel or the
firmware, interleaved by the BIOS, flat in a guest, wrongly described by the
SLIT, or unevenly filled. Lists settings and programs that work against
placement. Measures for some seconds (--no-measure skips that). As root it also
reads the firmware's tables, which show hidden nodes without a measurement.

Exit status: 0 healthy, 1 warning or defect, 3 undecided.`,
		Example: `  homenode doctor
  homenode doctor --no-measure
  homenode doctor --bundle report.tar.gz     # for a bug report
  homenode doctor --replay report.tar.gz
  homenode gather captured/ && homenode doctor --root captured/ --json`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if root != "" && replay != "" {
				return cli.Usagef("--root and --replay: want one")
			}
			if bundle != "" && replay != "" {
				return cli.Usagef("--bundle packs this machine or --root; the file of --replay is already a bundle")
			}
			if err := checkNumbers(c, req); err != nil {
				return err
			}
			if bundle == "-" && asJSON {
				return cli.Usagef("--bundle - and --json: both go to standard output; want one, the document is in " +
					"the bundle")
			}
			d, err := diagnosed(c, e, root, replay, noMeasure, req)
			if err != nil {
				return err
			}
			diagnosis := doctor.Diagnose(d, doctor.DefaultLimits)
			d.Diagnosis = &diagnosis
			if html != "" {
				page, err := heat.HTML("homenode doctor", d)
				if err != nil {
					return err
				}
				if err := cli.WriteText(html, page); err != nil {
					return err
				}
			}
			if bundle != "" {
				if err := writeBundle(e, bundle, root, d); err != nil {
					return err
				}
			}
			switch {
			case bundle == "-": // standard output is taken; what would stand there is in the bundle
			case asJSON:
				err = cli.PrintJSON(e.Stdout, d)
			default:
				err = printDiagnosis(e.Stdout, e.Paint(), d, ascii || !view.UTF8(e.Getenv))
			}
			if err != nil {
				return err
			}
			if code := doctor.ExitStatus(diagnosis); code != 0 {
				return cli.ExitWith(code)
			}
			return nil
		},
	}
	f := c.Flags()
	f.StringVar(&root, "root", "", "check the machine captured in `DIR` or its tar file; nothing is measured")
	f.StringVar(&replay, "replay", "", "judge the measurement or bundle in `FILE` (- is standard input)")
	f.BoolVar(&noMeasure, "no-measure", false,
		"use the tables of kernel and firmware and the stored measurement; measure nothing")
	f.StringVar(&bundle, "bundle", "",
		"write all that a bug report needs into `FILE` (- is standard output), a tar.gz, without what names this "+
			"machine or its owner")
	f.DurationVar(&req.Budget, "budget", 0, "measure for about so long; a noisy machine needs longer")
	f.BoolVar(&req.BusyOK, "busy-ok", false, "measure although the machine is busy")
	f.BoolVar(&req.RT, "rt", false, rtUsage)
	f.BoolVar(&asJSON, "json", false, "print JSON (schema "+measure.Schema+")")
	f.StringVar(&html, "html", "", "write one self-contained page into `FILE`")
	f.BoolVar(&ascii, "ascii", false, "print ASCII only")
	f.String("state-dir", e.DefaultState, "`folder` that measurements are kept in")
	return c
}

// diagnosed is the measurement with the diagnosis to print.
func diagnosed(c *cobra.Command, e *cli.Env, root, replay string, noMeasure bool,
	req measure.Request) (*measure.Document, error) {
	if replay != "" {
		return readDocument(e, replay)
	}
	if root != "" {
		fsys, err := cli.OpenRoot(e, root)
		if err != nil {
			return nil, cli.Usagef("%w", err)
		}
		h, err := topology.FromSysfs(fsys)
		if err != nil {
			return nil, cli.Usagef("%s: %w", root, err)
		}
		return doctor.Gather(fsys, h), nil
	}
	h, err := topology.FromSysfs(e.Root)
	if err != nil {
		return nil, cli.Forbiddenf("%w", err)
	}
	d := doctor.Gather(e.Root, h)
	prober := e.Probe(h, stateDir(c))
	if noMeasure {
		if kept, err := prober.Cached(d.Host.Fingerprint); err == nil && kept != nil {
			d = measure.Merge(kept, new(*d))
			d.Run = kept.Run
		}
		return d, nil
	}
	req.Parts = []measure.Part{measure.PartLatency}
	if len(h.Nodes) == 1 {
		req.Parts = append(req.Parts, measure.PartPages)
	} else {
		// Verdicts on several nodes rest on pairs of nodes: the time is theirs.
		req.From = "nodes"
		req.Parts, req.Mixes = append(req.Parts, measure.PartBandwidth), []string{"r"}
	}
	if len(h.Packages) > 1 || h.SplitCaches() {
		req.Parts = append(req.Parts, measure.PartC2C)
	}
	plan, err := measure.MakePlan(h, req, prober.Memory())
	if err == nil {
		err = runPlan(c.Context(), e, prober, plan, d)
	}
	if err != nil {
		d.Run, d.NotMeasured = nil, cli.OneLine(err.Error())
		return d, nil
	}
	if !d.Run.Partial {
		keep(e, prober, d)
	}
	return d, nil
}

func printDiagnosis(w io.Writer, p view.Paint, d *measure.Document, ascii bool) error {
	var b strings.Builder
	x := view.PlainAll(*d.Diagnosis)
	if x.Severity == measure.Undecided {
		fmt.Fprintf(&b, "%s\n\n", p.Bold("Not determined"))
	}
	for i, v := range x.Verdicts {
		if i > 0 {
			b.WriteString("\n")
		}
		p.Wrap(&b, severity(p, v.Severity)+": "+p.Bold(v.Says)+" "+
			p.Dim(fmt.Sprintf("[%s, confidence %.0f %%]", v.State, 100*v.Confidence)), "")
		for _, ev := range v.Evidence {
			p.Wrap(&b, ev.Says+" ("+ev.Source+") "+p.Dim("["+ev.Rule+"]"), "    ")
		}
		for _, a := range v.Advice {
			p.Wrap(&b, "→ "+a, "  ")
		}
		if v.Severity == measure.Undecided {
			p.Wrap(&b, "Needed to decide: "+v.WouldChange+".", "  ")
		} else {
			p.Wrap(&b, "Would change this: "+v.WouldChange+".", "  ")
		}
	}
	if len(x.Findings) > 0 {
		fmt.Fprintf(&b, "\n%s\n", p.Dim("settings and other programs"))
		for _, f := range x.Findings {
			p.Wrap(&b, fmt.Sprintf("%s  %s: %s", severity(p, f.Severity), f.Subject, f.Says), "  ")
			if f.Advice != "" {
				p.Wrap(&b, "→ "+f.Advice, "    ")
			}
		}
	}
	if len(x.NotKnown) > 0 {
		fmt.Fprintf(&b, "\n%s\n", p.Dim("not known"))
		for _, n := range x.NotKnown {
			p.Wrap(&b, n, "  ")
		}
	}
	if took := heat.Took(d); took != "" {
		b.WriteString("\n")
		p.Wrap(&b, "measured: "+took, "")
	}
	text := b.String()
	if ascii {
		text = view.ASCII(text)
	}
	_, err := io.WriteString(w, text)
	return err
}

// severity is a word, coloured; the word says it all.
func severity(p view.Paint, s measure.Severity) string {
	switch s {
	case measure.Healthy:
		return p.Good(string(s))
	case measure.Info:
		return p.Dim(string(s))
	}
	return p.Warn(string(s))
}
