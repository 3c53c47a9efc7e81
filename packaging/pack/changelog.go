package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/goreleaser/chglog"
	"go.yaml.in/yaml/v3"
)

var versionLine = regexp.MustCompile(`^## (\S+)(?: \((\d{4}-\d\d-\d\d)\))?$`)

// changes reads CHANGELOG.md. What has no version yet belongs to the one that is made.
func (r *release) changes(text string) (chglog.ChangeLogEntries, error) {
	var out chglog.ChangeLogEntries
	for _, line := range strings.Split(text, "\n") {
		if m := versionLine.FindStringSubmatch(line); m != nil {
			e := &chglog.ChangeLog{Semver: m[1], Date: r.time,
				Packager: "The Homenode authors <homenode@homenode.invalid>"}
			if m[1] == "Unreleased" {
				e.Semver = r.version
			} else if at, err := time.Parse(time.DateOnly, m[2]); err != nil {
				return nil, fmt.Errorf("CHANGELOG.md: %s: %w", line, err)
			} else {
				e.Date = at
			}
			out = append(out, e)
			continue
		}
		if len(out) == 0 {
			continue
		}
		last := out[len(out)-1]
		switch said, item := strings.CutPrefix(line, "- "); {
		case item:
			last.Changes = append(last.Changes, &chglog.ChangeLogChange{Note: strings.ReplaceAll(said, "`", "")})
		case strings.HasPrefix(line, "  ") && len(last.Changes) > 0:
			c := last.Changes[len(last.Changes)-1]
			c.Note += " " + strings.ReplaceAll(strings.TrimSpace(line), "`", "")
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("CHANGELOG.md: no version in it")
	}
	return out, nil
}

// notes writes what is new in this version, as CHANGELOG.md has it: NOTES.md.
func (r *release) notes() error {
	text, err := os.ReadFile(filepath.Join(r.source, "CHANGELOG.md"))
	if err != nil {
		return err
	}
	notes, err := r.section(string(text))
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(r.out, "NOTES.md"), []byte(notes), 0o644)
}

// section returns the part of CHANGELOG.md about this version. A version that has no section of
// its own is a development build: its part is the first one.
func (r *release) section(text string) (string, error) {
	var own, first strings.Builder
	in := &strings.Builder{} // what stands above the first version
	count := 0
	for line := range strings.Lines(text) {
		if m := versionLine.FindStringSubmatch(strings.TrimSpace(line)); m != nil {
			count++
			in = &strings.Builder{}
			if count == 1 {
				in = &first
			}
			if m[1] == r.version {
				in = &own
			}
			continue
		}
		in.WriteString(line)
	}
	said := strings.TrimSpace(own.String())
	if said == "" {
		said = strings.TrimSpace(first.String())
	}
	if said == "" {
		return "", fmt.Errorf("CHANGELOG.md: nothing about %s", r.version)
	}
	return "# Homenode " + r.version + "\n\n" + said + "\n", nil
}

// changelog writes the changes into a folder in the form that nfpm reads.
func (r *release) changelog(dir string) (string, error) {
	text, err := os.ReadFile(filepath.Join(r.source, "CHANGELOG.md"))
	if err != nil {
		return "", err
	}
	entries, err := r.changes(string(text))
	if err != nil {
		return "", err
	}
	b, err := yaml.Marshal(entries)
	if err != nil {
		return "", err
	}
	name := filepath.Join(dir, "changelog.yaml")
	return name, os.WriteFile(name, b, 0o600)
}
