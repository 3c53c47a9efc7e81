package main

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"regexp"
	"strconv"
	"strings"
)

// text is some prose of the project.
type text struct {
	// kind is comments, docs or sentences.
	kind string
	file string
	body string
}

// folder returns the folder that a text counts for: two levels of the tree at most.
func (t text) folder() string {
	parts := strings.Split(path.Dir(t.file), "/")
	return path.Join(parts[:min(2, len(parts))]...)
}

// sentencesIn lists the folders whose strings users read.
var sentencesIn = []string{"core/words", "ui/cli", "ui/metrics"}

// skipped finds files that nobody edits by hand, and the record of the past.
var skipped = regexp.MustCompile(`(^|/)(testdata|out|node_modules|\.[^/]+)/|^(dist|site|release|docs/man|bench/results|scripts/plain)/|` +
	`^docs/json\.md$|^CHANGELOG\.md$`)

// read returns all prose below a root.
func read(root fs.FS) ([]text, error) {
	var out []text
	err := fs.WalkDir(root, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if name != "." && skipped.MatchString(name+"/") {
				return fs.SkipDir
			}
			return nil
		}
		if skipped.MatchString(name) {
			return nil
		}
		source := path.Ext(name) == ".go"
		topic, _ := path.Match("docs/topics/*.txt", name)
		if !source && !topic && path.Ext(name) != ".md" {
			return nil
		}
		body, err := fs.ReadFile(root, name)
		if err != nil {
			return err
		}
		if !source {
			out = append(out, text{"docs", name, prose(string(body))})
			return nil
		}
		texts, err := program(name, body)
		out = append(out, texts...)
		return err
	})
	return out, err
}

var (
	fence    = regexp.MustCompile("(?ms)^ *```.*?^ *```")
	code     = regexp.MustCompile("`[^`\n]*`")
	comment  = regexp.MustCompile(`(?s)<!--.*?-->`)
	link     = regexp.MustCompile(`\]\([^)]*\)`)
	heading  = regexp.MustCompile(`(?m)^#+ .*$`)
	indented = regexp.MustCompile(`(?m)^(    |\t).*$`)
	item     = regexp.MustCompile(`(?m)^ *([-*>]|\d+\.) `)
)

// prose returns a page of Markdown without code, links and headings. Paragraphs, items and cells are sentences of their
// own.
func prose(page string) string {
	page = fence.ReplaceAllString(page, "")
	page = comment.ReplaceAllString(page, "")
	page = code.ReplaceAllString(page, "X")
	page = link.ReplaceAllString(page, "")
	page = heading.ReplaceAllString(page, "")
	page = item.ReplaceAllString(page, "\n\n")
	page = strings.ReplaceAll(page, "|", "\n\n")
	page = strings.NewReplacer("*", "", "[", "", "_", " ").Replace(page)
	return paragraphs(page)
}

// paragraphs joins the lines of each paragraph, and ends each with a period where it has no end.
func paragraphs(s string) string {
	var b strings.Builder
	for p := range strings.SplitSeq(s, "\n\n") {
		p = strings.Join(strings.Fields(p), " ")
		if p == "" {
			continue
		}
		b.WriteString(p)
		if !strings.ContainsAny(p[len(p)-1:], ".?!") {
			b.WriteString(".")
		}
		b.WriteString("\n")
	}
	return b.String()
}

// generated is how Go marks files that a program wrote.
var generated = regexp.MustCompile(`(?m)^// Code generated .* DO NOT EDIT\.$`)

// program returns the comments of a Go file, and its strings where users read them.
func program(name string, source []byte) ([]text, error) {
	if generated.Match(source) {
		return nil, nil
	}
	file, err := parser.ParseFile(token.NewFileSet(), name, source, parser.ParseComments)
	if err != nil {
		return nil, err
	}
	var comments bytes.Buffer
	for _, group := range file.Comments {
		body := indented.ReplaceAllString(group.Text(), "")
		comments.WriteString(paragraphs(code.ReplaceAllString(body, "X")))
	}
	out := []text{{"comments", name, comments.String()}}
	shown := text{kind: "sentences", file: name}
	if strings.HasSuffix(name, "_test.go") || !contains(sentencesIn, shown.folder()) {
		return out, nil
	}
	shown.body = literals(file)
	return append(out, shown), nil
}

func contains(list []string, s string) bool {
	for _, l := range list {
		if l == s {
			return true
		}
	}
	return false
}

// literals returns the strings of a file that have at least three words.
func literals(file *ast.File) string {
	var b strings.Builder
	ast.Inspect(file, func(n ast.Node) bool {
		if _, imports := n.(*ast.ImportSpec); imports {
			return false
		}
		if _, tag := n.(*ast.Field); tag {
			return false
		}
		lit, ok := n.(*ast.BasicLit)
		if !ok || lit.Kind != token.STRING {
			return true
		}
		s, err := strconv.Unquote(lit.Value)
		if err == nil && len(word.FindAllString(s, -1)) >= 3 {
			b.WriteString(paragraphs(s))
		}
		return true
	})
	return b.String()
}
