// Loose counts what makes Go code dense, folder by folder, and compares the counts with a
// table in the repository: a count may fall and never rises. "make check" runs it.
//
// Without flags it lists the folders whose counts rose, with each place. With -update it
// lowers the table to the present counts. A number that has to rise, because code moved to
// another folder, is edited by hand. With -list it prints every place below the folders given.
package main

import (
	"flag"
	"fmt"
	"os"
	"strings"
)

const table = "scripts/loose/counts.txt"

func main() {
	update := flag.Bool("update", false, "lower the table to the present counts")
	list := flag.Bool("list", false, "print every place in the folders given, or everywhere")
	flag.Parse()
	if err := run(*update, *list, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "loose:", err)
		os.Exit(1)
	}
}

func run(update, list bool, folders []string) error {
	places, err := scan(os.DirFS("."))
	if err != nil {
		return err
	}
	if list {
		for _, p := range places {
			if within(p.folder, folders) {
				fmt.Println(p)
			}
		}
		return nil
	}
	now := count(places)
	text, err := os.ReadFile(table)
	if os.IsNotExist(err) && update {
		return os.WriteFile(table, []byte(now.String()), 0o644)
	}
	if err != nil {
		return err
	}
	allowed, err := parse(string(text))
	if err != nil {
		return fmt.Errorf("%s: %w", table, err)
	}
	if update {
		return os.WriteFile(table, []byte(lowered(allowed, now).String()), 0o644)
	}
	risen := rises(allowed, now)
	for _, r := range risen {
		fmt.Printf("%s: %s: %d, at most %d are allowed\n", r.folder, r.kind, r.now, r.allowed)
		for _, p := range places {
			if p.folder == r.folder && p.kind == r.kind {
				fmt.Println("  ", p)
			}
		}
	}
	if len(risen) > 0 {
		return fmt.Errorf("%d counts rose: write the new places loosely", len(risen))
	}
	return nil
}

func within(folder string, folders []string) bool {
	if len(folders) == 0 {
		return true
	}
	for _, f := range folders {
		f = strings.Trim(strings.TrimPrefix(f, "./"), "/")
		if folder == f || strings.HasPrefix(folder, f+"/") {
			return true
		}
	}
	return false
}
