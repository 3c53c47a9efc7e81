package main

import (
	"regexp"
	"strings"
)

// pattern is one habit of wording that is counted.
type pattern struct {
	name string
	// better says in a few words what to write instead.
	better string
	find   *regexp.Regexp
}

// patterns is what is counted, in the order of the columns of counts.txt. Each is matched in one sentence at a time.
var patterns = []pattern{
	{
		name:   "clause",
		better: "a noun: not 'what is so now', but 'the current state'",
		find: regexp.MustCompile(`^(What|Who|Whoever|Whatever|Which) ` +
			`|(?i)\b(what|whatever|who|whoever) (is|are|was|were|has|had|may|can|could|must|stands|goes|holds|follows|comes|came|runs|ran|uses|needs)\b`),
	},
	{
		name:   "tell",
		better: "report, log, show, print",
		find:   regexp.MustCompile(`(?i)\b(tell|tells|told|telling)\b`),
	},
	{
		name:   "look",
		better: "scan, for the daemon's; read, check, for others",
		find:   regexp.MustCompile(`(?i)\b(look|looks|looked|looking)\b`),
	},
	{
		name:   "of it",
		better: "a possessive or the noun: its, their",
		find:   regexp.MustCompile(`(?i)\bof (it|that|those|which|these)\b`),
	},
	{
		name:   "somebody",
		better: "the user, another program, libvirt, the kernel",
		find:   regexp.MustCompile(`(?i)\b(some|no|any|every)body\b`),
	},
	{
		name:   "has to be",
		better: "must, or the imperative",
		find:   regexp.MustCompile(`(?i)\b(has|have|had|is|are|was|were) to be\b`),
	},
	{
		name:   "beside",
		better: "next to, besides, alongside, compared with",
		find:   regexp.MustCompile(`(?i)\bbeside\b`),
	},
}

// relative finds a relative clause, which English has too: "the guest that is", "a user who may". Those are no nouns.
var relative = regexp.MustCompile(`(?i)\b(one|ones|user|users|people|person|anyone|someone|everyone|operator|operators|root|program|programs|party|client|clients|those|man|reader|readers|caller),? who\b`)

var (
	word     = regexp.MustCompile(`\pL[\pL'’-]*`)
	sentence = regexp.MustCompile(`[^.!?]+(?:[.!?]+[^\s.!?][^.!?]*)*[.!?]*`)
)

// count returns the number of words of a text, and its matches, by pattern.
func count(text string) (words int, matches [][]string) {
	matches = make([][]string, len(patterns))
	words = len(word.FindAllString(text, -1))
	for _, s := range sentence.FindAllString(text, -1) {
		s = strings.TrimSpace(s)
		for i, p := range patterns {
			in := s
			if p.name == "clause" {
				in = clauses(s)
			}
			for range p.find.FindAllString(in, -1) {
				matches[i] = append(matches[i], s)
			}
		}
	}
	return words, matches
}

// clauses returns a sentence without its relative clauses, and nothing of a question.
func clauses(sentence string) string {
	if strings.HasSuffix(sentence, "?") {
		return ""
	}
	return relative.ReplaceAllString(sentence, "$1")
}
