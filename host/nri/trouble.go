package nri

import (
	"slices"
	"strings"

	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// trouble is what is wrong with one workload of a pod.
type trouble struct {
	id      workload.ID
	class   workload.Class // that it has
	bad     []string
	refused []words.Reason
}

// mostTroubles bounds the line of a pod: its author can write thousands of annotations.
const mostTroubles = 4

// mostCited bounds what is cited of an annotation, bytes.
const mostCited = 64

// troubles returns one line for all that is wrong with a pod; "" where nothing is. Each line is an event
// in the history and in Kubernetes, which the author of a pod must not fill.
func (p *pod) troubles(all []trouble) string {
	var items []string
	add := func(item string) {
		if !slices.Contains(items, item) {
			items = append(items, item)
		}
	}
	var class workload.Class
	for _, t := range all {
		where := ""
		if string(t.id) != p.name {
			where = strings.TrimPrefix(string(t.id), p.name+"/") + ": "
		}
		if len(t.refused) > 0 && class == "" {
			class = t.class
		}
		for _, r := range t.refused {
			add(where + r.String())
		}
		for _, text := range t.bad {
			add(where + text)
		}
	}
	count := len(items) + p.unknown.all
	text := words.SomeOf(append(items, p.unknown.first...), count, mostTroubles)
	if count == 0 || class == "" {
		return text
	}
	return words.Because(words.PodAnnotations, text, string(class)).String()
}

// refusal returns what explain says of wishes that were not followed.
func refusal(refused []words.Reason, class workload.Class) words.Reason {
	if len(refused) == 0 {
		return words.Reason{}
	}
	return words.Because(words.PodAnnotations, words.Some(words.Sentences(refused), mostTroubles), string(class))
}

// distrusted returns why the mark of a container is not believed, where that matters: its sets then count
// as set by another program.
func (p *pod) distrusted(c *container) string {
	switch c.mark {
	case forged:
		return words.Because(words.ForgedMark, c.name).String()
	case oldMark:
		if c.cpus != "" {
			return words.Because(words.OldMark, c.name).String()
		}
	}
	return ""
}
