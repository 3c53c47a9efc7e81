package observe

import (
	"fmt"
	"maps"
	"slices"

	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// problems gathers what could not be read, one entry a kind however often it
// happened.
type problems struct {
	byKind map[string]*problem
}

type problem struct {
	effect string
	first  error
	count  int
}

// add notes that subject (a file or node) could not be read and what that does to
// the figures.
func (p *problems) add(subject, effect string, err error) {
	if p.byKind == nil {
		p.byKind = map[string]*problem{}
	}
	have := p.byKind[subject+effect]
	if have == nil {
		p.byKind[subject+effect] = &problem{effect, err, 1}
		return
	}
	have.count++
}

func (p *problems) list() []workload.Problem {
	var out []workload.Problem
	for _, key := range slices.Sorted(maps.Keys(p.byKind)) {
		e := p.byKind[key]
		text := fmt.Sprintf("%s: %v", e.effect, e.first)
		if e.count > 1 {
			text += fmt.Sprintf(" (and %d more)", e.count-1)
		}
		// Errors name paths, and cgroups may be called anything.
		out = append(out, workload.Problem{Subject: words.Printable(key[:len(key)-len(e.effect)]),
			Text: words.Printable(text)})
	}
	return out
}
