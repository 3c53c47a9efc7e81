package machine

import (
	"fmt"
	"io"
	"math"

	"github.com/homenode/homenode/core/measure"
	"github.com/homenode/homenode/ui/cli"
)

func export(w io.Writer, d *measure.Document, t measure.Table, format string) error {
	switch format {
	case "numactl":
		fmt.Fprint(w, "node distances:\nnode ")
		for _, n := range d.Nodes {
			fmt.Fprintf(w, "%4d", n.ID)
		}
		fmt.Fprintln(w)
		for i, n := range d.Nodes {
			fmt.Fprintf(w, "%4d:", n.ID)
			for j := range d.Nodes {
				v := 10 * float64(t[i][j]/t[i][i])
				if math.IsNaN(v) {
					fmt.Fprint(w, "   -")
					continue
				}
				fmt.Fprintf(w, "%4.0f", v)
			}
			fmt.Fprintln(w)
		}
	case "hwloc":
		// hwloc-annotate(1): kind, number of objects, the objects, the values.
		fmt.Fprintf(w, "name=HomenodeLatency\nkind=%d\n%d\n", 0x2|0x4, len(d.Nodes)) // from user, means latency
		for _, n := range d.Nodes {
			fmt.Fprintf(w, "numa:%d\n", n.ID)
		}
		for i := range t {
			for j := range t[i] {
				v := 0.0
				if t[i][j].Known() {
					v = math.Round(float64(t[i][j]))
				}
				fmt.Fprintf(w, "%.0f\n", v)
			}
		}
	case "csv":
		fmt.Fprintln(w, "from,to,latency_ns,low,high,read_mb_s")
		m := bandwidthOf(d)
		for i, a := range d.Nodes {
			for j, b := range d.Nodes {
				low, high := measure.Unknown, measure.Unknown
				if l := d.Latency; l != nil {
					for p, row := range l.Rows {
						for q, col := range l.Cols {
							if row == a.ID && col == b.ID {
								low, high = l.CI(p, q)[0], l.CI(p, q)[1]
							}
						}
					}
				}
				fmt.Fprintf(w, "%d,%d,%s,%s,%s,%s\n", a.ID, b.ID, plainNumber(t[i][j]), plainNumber(low),
					plainNumber(high), plainNumber(m.At(i, j)))
			}
		}
	default:
		return cli.Usagef("--format %s: want numactl, hwloc or csv", format)
	}
	return nil
}

func bandwidthOf(d *measure.Document) measure.Table {
	t := measure.NewTable(len(d.Nodes), len(d.Nodes))
	for _, b := range d.Bandwidth {
		if b.Mix != "r" {
			continue
		}
		for i, row := range b.Rows {
			for j, col := range b.Cols {
				if p, q := d.Position(row), d.Position(col); p >= 0 && q >= 0 {
					t[p][q] = b.Median[i][j]
				}
			}
		}
	}
	return t
}

func plainNumber(v measure.Value) string {
	if !v.Known() {
		return ""
	}
	return fmt.Sprintf("%.1f", float64(v))
}
