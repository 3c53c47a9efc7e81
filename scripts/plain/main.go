package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
)

// limitsFile has the limits, below the root of the project.
const limitsFile = "scripts/plain/counts.txt"

func main() {
	update := flag.Bool("update", false, "lower the limits to the current rates")
	show := flag.String("show", "", "print every match in this folder")
	flag.Parse()
	err := run(os.Stdout, *update, *show)
	if err != nil {
		fmt.Fprintln(os.Stderr, "plain:", err)
		os.Exit(1)
	}
}

func run(w io.Writer, update bool, show string) error {
	texts, err := read(os.DirFS("."))
	if err != nil {
		return err
	}
	if show != "" {
		return print(w, texts, show)
	}
	now := rows(texts)
	limits, err := readLimits()
	if err != nil {
		return err
	}
	if update {
		var b bytes.Buffer
		err := write(&b, lowered(limits, now))
		if err != nil {
			return err
		}
		return os.WriteFile(limitsFile, b.Bytes(), 0o644)
	}
	over := risen(limits, now)
	if len(over) > 0 {
		return fmt.Errorf("harder to read than before; -show FOLDER prints the places, CONVENTIONS.md has the "+
			"rules:\n%s",
			strings.Join(over, "\n"))
	}
	return nil
}

// readLimits returns no limits when the file does not exist.
func readLimits() ([]row, error) {
	body, err := os.ReadFile(limitsFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	limits, err := parse(bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", limitsFile, err)
	}
	return limits, nil
}

// print writes each match in a folder, and in those below it.
func print(w io.Writer, texts []text, folder string) error {
	for _, t := range texts {
		inside := folder == "." || t.file == folder || strings.HasPrefix(t.file, folder+"/")
		if !inside {
			continue
		}
		_, matches := count(t.body)
		for i, sentences := range matches {
			for _, s := range sentences {
				_, err := fmt.Fprintf(w, "%s: %s: %s: %s\n", t.file, t.kind, patterns[i].name, s)
				if err != nil {
					return err
				}
			}
		}
	}
	return nil
}
