package see

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"

	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
	"github.com/homenode/homenode/ui/cli"
	"github.com/homenode/homenode/ui/view"
)

var updateStat = flag.Bool("update-stat", false, "write the golden file of stat anew")

// TestStatScreens: every node is shown in 80 columns, however many there are.
func TestStatScreens(t *testing.T) {
	var screens bytes.Buffer
	for _, nodes := range []int{1, 2, 4, 8} {
		s := stat{Schema: "homenode-stat/1"}
		for _, name := range []string{"total", "free", "huge pages of 2 MiB free"} {
			s.Rows = append(s.Rows, workload.Figure{Name: name, Unit: workload.InKiB})
		}
		s.Rows = append(s.Rows, workload.Figure{Name: "hit", Unit: workload.InPages})
		for n := range nodes {
			s.Nodes = append(s.Nodes, topology.NodeID(n))
			for i, v := range []int64{256 << 20, int64(n)<<9 + 100, -1, 123456789012} {
				s.Rows[i].ByNode = append(s.Rows[i].ByNode, v)
			}
		}
		var out bytes.Buffer
		e := &cli.Env{Stdout: &out}
		printFigures(e, view.Paint{Width: 80}, "MiB", s.Figures, workload.InKiB)
		printFigures(e, view.Paint{Width: 80}, "PAGES SINCE BOOT", s.Figures, workload.InPages)
		for line := range strings.Lines(out.String()) {
			if w := ansi.StringWidth(strings.TrimRight(line, "\n")); w > 80 {
				t.Errorf("%d nodes: %d columns: %s", nodes, w, line)
			}
		}
		for n := range nodes {
			if strings.Count(out.String(), fmt.Sprintf("NODE %d", n)) != 2 {
				t.Errorf("%d nodes: node %d is not shown", nodes, n)
			}
		}
		fmt.Fprintf(&screens, "%d nodes\n%s\n", nodes, out.String())
	}
	const golden = "testdata/stat.golden"
	if *updateStat {
		if err := os.WriteFile(golden, screens.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil || string(want) != screens.String() {
		t.Errorf("%v; other than %s:\n%s", err, golden, screens.String())
	}
}
