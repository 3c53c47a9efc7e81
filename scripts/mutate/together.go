package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// How a mutant of several is tried.
type how int

const (
	amongOthers how = iota // in one binary with the others
	alone                  // in one of its own
	compilesNot
)

// together builds one binary with many mutants, for building takes longer than most tests:
// each is a copy of its function, which the function calls in its place when the variable
// MUTANT in the environment says so. Those that do not compile are found by their lines.
func (r *run) together(mutants []mutant) (bin string, ways []how, err error) {
	bin, ways = filepath.Join(r.tmp, "together"), make([]how, len(mutants))
	for i, m := range mutants {
		if m.in == nil {
			ways[i] = alone
		}
	}
	for slices.Contains(ways, amongOthers) {
		files, lines, err := beside(mutants, ways)
		if err != nil {
			return "", nil, err
		}
		out, err := r.build(bin, files)
		if err == nil {
			break
		}
		found := false
		for _, at := range reported.FindAllSubmatch(out, -1) {
			line, _ := strconv.Atoi(string(at[2]))
			for i, l := range lines {
				if ways[i] == amongOthers && l.file == string(at[1]) && line >= l.first && line <= l.last {
					ways[i], found = compilesNot, true
				}
			}
		}
		if !found {
			return "", nil, fmt.Errorf("the mutants do not compile together: %s", out)
		}
	}
	return bin, ways, nil
}

var reported = regexp.MustCompile(`(?m)([\w.-]+\.go):(\d+):`)

type span struct {
	file        string
	first, last int
}

// beside is the files of mutants with all of them in, and the lines where each is.
func beside(mutants []mutant, ways []how) (map[string]string, []span, error) {
	files, lines := map[string]string{}, make([]span, len(mutants))
	byFile := map[string][]int{}
	for i, m := range mutants {
		if ways[i] == amongOthers {
			byFile[m.file] = append(byFile[m.file], i)
		}
	}
	for name, all := range byFile {
		src, err := os.ReadFile(name)
		if err != nil {
			return nil, nil, err
		}
		slices.SortFunc(all, func(a, b int) int { return mutants[a].in.body - mutants[b].in.body })
		var text, copies strings.Builder
		from := 0
		for _, i := range all { // calls take no line of their own
			f := mutants[i].in
			call := fmt.Sprintf("%s%s_mutant%d(%s)", f.before, src[f.name:f.end], i, f.args)
			if f.returns {
				call = "return " + call
			} else {
				call += "; return"
			}
			fmt.Fprintf(&text, "%s if mutantNumber == \"%d\" { %s };", src[from:f.body], i, call)
			from = f.body
		}
		text.Write(src[from:])
		line := 1 + bytes.Count(src, []byte("\n"))
		for _, i := range all {
			m := mutants[i]
			one := fmt.Sprintf("%s_mutant%d%s%s%s\n", src[m.in.from:m.in.end], i, src[m.in.end:m.from], m.text,
				src[m.to:m.in.to])
			lines[i] = span{filepath.Base(name), line, line + strings.Count(one, "\n") - 1}
			line = lines[i].last + 1
			copies.WriteString(one)
		}
		files[name] = text.String() + copies.String()
	}
	if len(byFile) == 0 {
		return nil, nil, nil
	}
	dir, pkg := "", ""
	for name, text := range files {
		dir, pkg = filepath.Dir(name), packageOf.FindStringSubmatch(text)[1]
	}
	files[filepath.Join(dir, "mutant_number.go")] = "package " + pkg +
		"\n\nimport \"os\"\n\nvar mutantNumber = os.Getenv(\"MUTANT\")\n"
	return files, lines, nil
}

var packageOf = regexp.MustCompile(`(?m)^package (\w+)`)
