package run

import (
	"fmt"
	"io/fs"
	"strings"

	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
	"github.com/homenode/homenode/ui/cli"
)

// hardwareNow is `homenode run --hardware`.
func hardwareNow(e *cli.Env, args []string) error {
	if len(args) > 0 {
		return cli.Usagef("--hardware shows the nodes and takes no command")
	}
	at, err := readWhereabouts(e)
	if err != nil {
		return err
	}
	return (&numactl{e: e, at: at}).hardware()
}

// hardware prints the nodes as numactl does, for scripts that read it.
func (n *numactl) hardware() error {
	f, err := n.e.Memory.Nodes()
	if err != nil {
		return err
	}
	kib := map[string][]int64{}
	for _, r := range f.Rows {
		if r.Unit == workload.InKiB {
			kib[r.Name] = r.ByNode
		}
	}
	w := n.e.Stdout
	fmt.Fprintf(w, "available: %d nodes (%s)\n", n.at.online.Len(), n.at.online)
	for node := range n.at.online.All() {
		fmt.Fprintf(w, "node %d cpus: %s\n", node, strings.TrimSpace(spaced(n.at.of[node])))
		for i, id := range f.Nodes {
			if id != node {
				continue
			}
			for _, row := range [][2]string{{"size", "total"}, {"free", "free"}} {
				if values := kib[row[1]]; i < len(values) && values[i] >= 0 {
					fmt.Fprintf(w, "node %d %s: %d MB\n", node, row[0], values[i]>>10)
				}
			}
		}
	}
	fmt.Fprint(w, "node distances:\nnode ")
	for node := range n.at.online.All() {
		fmt.Fprintf(w, "%4d", node)
	}
	for node := range n.at.online.All() {
		text, err := fs.ReadFile(n.e.Root, fmt.Sprintf("sys/devices/system/node/node%d/distance", node))
		if err != nil {
			text = []byte("10")
		}
		fmt.Fprintf(w, "\n%3d: ", node)
		for _, d := range strings.Fields(string(text)) {
			fmt.Fprintf(w, "%4s", words.Printable(d))
		}
	}
	fmt.Fprintln(w)
	return nil
}
