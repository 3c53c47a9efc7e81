package docs

import (
	"embed"
	"slices"
	"strings"
)

//go:embed topics/*.txt
var topics embed.FS

// Topic is a short text of `homenode help`: the first line of its file is the title.
type Topic struct {
	Name, Title, Text string
}

// Topics returns every topic, by name.
func Topics() []Topic {
	entries, err := topics.ReadDir("topics")
	if err != nil {
		panic(err) // the folder is part of the binary
	}
	var out []Topic
	for _, entry := range entries {
		topic, _ := FindTopic(strings.TrimSuffix(entry.Name(), ".txt"))
		out = append(out, topic)
	}
	slices.SortFunc(out, func(a, b Topic) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// FindTopic returns the topic with a name.
func FindTopic(name string) (topic Topic, found bool) {
	text, err := topics.ReadFile("topics/" + name + ".txt")
	if err != nil {
		return Topic{}, false
	}
	title, body, _ := strings.Cut(string(text), "\n")
	return Topic{name, title, strings.TrimLeft(body, "\n")}, true
}
