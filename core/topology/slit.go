package topology

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// localDistance is a node's SLIT distance to itself, and minDistance the least
// a SLIT may hold (ACPI 6.5, 5.2.17; include/linux/topology.h LOCAL_DISTANCE).
const (
	localDistance = 10
	minDistance   = 10
	maxDistance   = 255
)

// readDistances reads nodeN/distance: one row of the SLIT, for the online
// nodes in rising order (drivers/base/node.c). nil when no node tells.
func readDistances(t *tree, nodes []Node) Matrix {
	ids := make([]NodeID, len(nodes))
	for i, n := range nodes {
		ids[i] = n.ID
	}
	m, found := newMatrix(len(nodes)), 0
	for i, n := range nodes {
		text, ok := t.optional(nodeName(n.ID), nodePath(n.ID, "distance"))
		if !ok {
			continue
		}
		found++
		row, err := parseRow(text)
		if err != nil {
			t.note("slit", "%s: %v; the row is taken as unknown", nodePath(n.ID, "distance"), err)
			continue
		}
		if len(row) == len(ids) {
			m[i] = row
			continue
		}
		// Some trees keep a row for nodes that are gone.
		possible, ok, _ := setFile[NodeID](t, nodeDir+"/possible")
		if !ok || possible.Len() != len(row) {
			t.note("slit", "%s has %s for %s; the row is taken as unknown", nodePath(n.ID, "distance"),
				plural(len(row), "value"), plural(len(ids), "node"))
			continue
		}
		for j, id := range ids {
			if at := slices.Index(possible.Slice(), id); at >= 0 {
				m[i][j] = row[at]
			}
		}
		t.note("slit", "%s also lists nodes that are not online", nodePath(n.ID, "distance"))
	}
	if found == 0 {
		if len(nodes) > 1 {
			t.note("slit", "the kernel shows no distances")
		}
		return nil
	}
	m, notes := judge(nodes, m)
	t.notes = append(t.notes, notes...)
	return m
}

func newMatrix(n int) Matrix {
	m := make(Matrix, n)
	for i := range m {
		m[i] = slices.Repeat([]int{None}, n)
	}
	return m
}

func parseRow(text string) ([]int, error) {
	var row []int
	for field := range strings.FieldsSeq(text) {
		v, err := strconv.ParseUint(field, 10, 31)
		if err != nil {
			return nil, fmt.Errorf("value %d is %q, want a number", len(row)+1, clip(field))
		}
		row = append(row, int(v))
	}
	return row, nil
}

// judge takes out of a SLIT what cannot be a distance, and says what is odd.
// Odd but usable values stay: the kernel's own balancing uses them too.
func judge(nodes []Node, m Matrix) (Matrix, []Note) {
	var notes []Note
	say := func(format string, args ...any) {
		notes = append(notes, Note{"slit", fmt.Sprintf(format, args...)})
	}
	var low, local, skew []string
	known, flat := 0, true
	for i := range m {
		for j, d := range m[i] {
			switch {
			case d == None:
				continue
			case d < minDistance || d > maxDistance:
				low = append(low, fmt.Sprintf("node%d to node%d is %d", nodes[i].ID, nodes[j].ID, d))
				m[i][j] = None
				continue
			case i == j && d != localDistance:
				local = append(local, fmt.Sprintf("node%d is %d", nodes[i].ID, d))
			}
			if i != j {
				known++
				flat = flat && d == localDistance
			}
		}
	}
	for i := range m {
		for j := range i {
			if a, b := m[i][j], m[j][i]; a != b && a != None && b != None {
				skew = append(skew, fmt.Sprintf("node%d to node%d is %d, back is %d", nodes[j].ID, nodes[i].ID, b, a))
			}
		}
	}
	if len(low) > 0 {
		say("distances are 10 to 255, but %s; taken as unknown", some(low))
	}
	if len(local) > 0 {
		say("a node's distance to itself is 10, but %s", some(local))
	}
	if len(skew) > 0 {
		say("not the same both ways: %s", some(skew))
	}
	if known > 0 && flat {
		say("every distance is 10: the firmware gives none, and distances between nodes count as unknown")
		for i := range m {
			for j := range m[i] {
				if i != j {
					m[i][j] = None
				}
			}
		}
	}
	return m, notes
}

// some joins the first of a list, and counts the rest.
func some(all []string) string {
	const most = 3
	if len(all) <= most {
		return strings.Join(all, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(all[:most], ", "), len(all)-most)
}
