// Command man writes homenode's manual pages into a folder, from the same table
// that parses the command line. Pages of commands that are no more are removed.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra/doc"

	"github.com/homenode/homenode/ui/cli"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "man:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("want one folder, have %q", args)
	}
	if err := os.MkdirAll(args[0], 0o755); err != nil {
		return err
	}
	old, err := filepath.Glob(filepath.Join(args[0], "homenode*.1"))
	if err != nil {
		return err
	}
	for _, name := range old {
		if err := os.Remove(name); err != nil {
			return err
		}
	}
	root := cli.Command()
	root.DisableAutoGenTag = true
	// Not the date of writing: the same commands give the same pages.
	date := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	return doc.GenManTree(root, &doc.GenManHeader{Section: "1", Source: "Homenode", Manual: "Homenode", Date: &date}, args[0])
}
