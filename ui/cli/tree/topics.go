package tree

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/homenode/homenode/core/workload"
	"github.com/homenode/homenode/docs"
	"github.com/homenode/homenode/ui/cli"
)

// topicsWord lists the topics, as `git help --guides` lists guides.
const topicsWord = "topics"

// helpCommand is `homenode help`: the help of a command, or a topic of the handbook. Commands
// come first. An unknown word is bad usage.
func helpCommand() *cobra.Command {
	return &cobra.Command{
		Use: "help [COMMAND | TOPIC | topics]", Short: "Explain a command or a topic",
		Long: "Prints the help of a command, or a short text about a topic such as classes, batch\n" +
			"or going-back. `homenode help topics` lists all topics.",
		Example: "  homenode help run\n  homenode help topics\n  homenode help classes",
		RunE: func(c *cobra.Command, args []string) error {
			of, rest, err := c.Root().Find(args)
			if err == nil && len(rest) == 0 {
				return of.Help()
			}
			if len(args) == 1 && args[0] == topicsWord {
				return printTopics(c.OutOrStdout())
			}
			if topic, found := docs.FindTopic(strings.Join(args, " ")); found {
				_, err := fmt.Fprintf(c.OutOrStdout(), "%s\n\n%s", topic.Title, topic.Text)
				return err
			}
			return unknownTopic(c.Root(), strings.Join(args, " "))
		},
	}
}

func printTopics(w io.Writer) error {
	all := docs.Topics()
	longest := 0
	for _, topic := range all {
		longest = max(longest, len(topic.Name))
	}
	for _, topic := range all {
		if _, err := fmt.Fprintf(w, "  %-*s  %s\n", longest, topic.Name, topic.Title); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintln(w, "\n`homenode help TOPIC` prints one of them.")
	return err
}

// unknownTopic is the error of a word that is neither a command nor a topic; it names the nearest.
func unknownTopic(root *cobra.Command, typed string) error {
	var known []workload.Named
	add := func(name string) { known = append(known, workload.Named{ID: workload.ID(name)}) }
	add(topicsWord)
	for _, c := range root.Commands() {
		if c.IsAvailableCommand() {
			add(c.Name())
		}
	}
	for _, topic := range docs.Topics() {
		add(topic.Name)
	}
	near := "."
	if like := workload.Alike(known, typed); len(like) > 0 {
		near = fmt.Sprintf("; did you mean %s?", like[0])
	}
	return cli.Usagef("help: no command or topic %q%s See `homenode help topics` and `homenode --help`", typed, near)
}
