// Command man writes homenode's manual pages into a folder: those of commands from the
// same table that parses the command line, homenode.yaml(5) from docs/config.md. Pages of
// commands that are no more are removed. The sample configuration of the packages is
// written from docs/config.md, too. It runs in the root folder of the source.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra/doc"

	"github.com/homenode/homenode/ui/cli"
)

// pageDate is not the date of writing: the same commands give the same pages.
var pageDate = time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)

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
	if err := doc.GenManTree(root, &doc.GenManHeader{Section: "1", Source: "Homenode", Manual: "Homenode", Date: &pageDate}, args[0]); err != nil {
		return err
	}
	return configuration("docs/config.md", filepath.Join(args[0], "homenode.yaml.5"), "packaging/homenode.yaml", pageDate)
}
