package main

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// counts holds the counts of each folder that has any.
type counts map[string][kinds]int

func count(places []place) counts {
	c := counts{}
	for _, p := range places {
		row := c[p.folder]
		row[p.kind]++
		c[p.folder] = row
	}
	return c
}

// String writes the table: a head, then one folder a line.
func (c counts) String() string {
	var b strings.Builder
	fmt.Fprintln(&b,
		"# How often each folder does what makes code dense: these may fall, and never rise (scripts/loose).")
	b.WriteString("# folder")
	for _, name := range names {
		b.WriteString(" " + name)
	}
	b.WriteString("\n")
	for _, dir := range slices.Sorted(maps.Keys(c)) {
		b.WriteString(dir)
		for _, n := range c[dir] {
			fmt.Fprintf(&b, " %d", n)
		}
		b.WriteString("\n")
	}
	return b.String()
}

func parse(text string) (counts, error) {
	c := counts{}
	for i, line := range strings.Split(text, "\n") {
		fields := strings.Fields(line)
		if len(fields) == 0 || strings.HasPrefix(line, "#") {
			continue
		}
		if len(fields) != 1+int(kinds) {
			return nil, fmt.Errorf("line %d: %d numbers where %d belong", i+1, len(fields)-1, kinds)
		}
		if _, twice := c[fields[0]]; twice {
			return nil, fmt.Errorf("line %d: %s stands there twice", i+1, fields[0])
		}
		var row [kinds]int
		for k := range row {
			n, err := strconv.Atoi(fields[1+k])
			if err != nil || n < 0 {
				return nil, fmt.Errorf("line %d: %q is no count", i+1, fields[1+k])
			}
			row[k] = n
		}
		c[fields[0]] = row
	}
	return c, nil
}

// A rise is a count above the table's.
type rise struct {
	folder       string
	kind         kind
	allowed, now int
}

func rises(allowed, now counts) []rise {
	var out []rise
	for _, dir := range slices.Sorted(maps.Keys(now)) {
		for k := range kinds {
			if now[dir][k] > allowed[dir][k] {
				out = append(out, rise{dir, k, allowed[dir][k], now[dir][k]})
			}
		}
	}
	return out
}

// lowered returns the smaller of both counts of each folder; a folder without any is left out.
func lowered(allowed, now counts) counts {
	out := counts{}
	for dir, row := range allowed {
		for k := range row {
			row[k] = min(row[k], now[dir][k])
		}
		if row != [kinds]int{} {
			out[dir] = row
		}
	}
	return out
}
