package homenode

import (
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/text"

	"github.com/homenode/homenode/config"
	"github.com/homenode/homenode/core/guest"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/ui/cli/tree"
)

// page is a Markdown file of the project: where it leads, and what can be led to.
type page struct {
	links   []string
	anchors []string
	yaml    []string
	// commands is the lines that call homenode, in code.
	commands []string
	// paths has paths of the project, in code.
	paths []string
}

// TestLinksResolve: every relative link of a document leads to a file or folder of the project,
// and every anchor to a heading; so does a path in backquotes that begins with "../". What lies
// outside the project is not there for a reader of it.
func TestLinksResolve(t *testing.T) {
	pages := readPages(t)
	checked := 0
	for name, p := range pages {
		for _, link := range p.links {
			checked++
			if why := broken(pages, name, link); why != "" {
				t.Errorf("%s links to %s: %s", name, link, why)
			}
		}
	}
	if checked < 50 {
		t.Fatalf("only %d links seen: the walk is broken", checked)
	}
}

var mention = regexp.MustCompile(`\b(docs|bench)/[\w/.-]+\.md\b`)

// TestMentionedDocumentsExist: so does what comments and sentences of the program call by its path.
func TestMentionedDocumentsExist(t *testing.T) {
	seen := 0
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		topic, _ := filepath.Match("docs/topics/*.txt", filepath.ToSlash(name))
		source := filepath.Ext(name) == ".go" || filepath.Ext(name) == ".yaml" || topic
		if err != nil || d.IsDir() || !source || name == "docs_test.go" {
			return err
		}
		text, err := os.ReadFile(name)
		for _, said := range mention.FindAllString(string(text), -1) {
			seen++
			if _, err := os.Stat(said); err != nil {
				t.Errorf("%s speaks of %s: no such file", name, said)
			}
		}
		return err
	})
	if err != nil || seen < 20 {
		t.Fatalf("%d documents seen: %v", seen, err)
	}
}

// Paths of the project, in code: built files and placeholders do not exist, and a symbol may follow a package.
var (
	ofProject = regexp.MustCompile(`^(api|bench|cluster|cmd|config|core|daemon|e2e|host|integrations|packaging|scripts|` +
		`sim|testdata|ui)(/[\w.-]+)+/?$`)
	built  = regexp.MustCompile(`/out(/|$)|/[A-Z]{2,}`)
	symbol = regexp.MustCompile(`\.[A-Z]\w*$`)
)

// TestPathsExist: files and folders in the documents exist.
func TestPathsExist(t *testing.T) {
	checked := 0
	for name, p := range readPages(t) {
		if name == "CONVENTIONS.md" { // which names files of others
			continue
		}
		for _, said := range p.paths {
			if built.MatchString(said) {
				continue
			}
			checked++
			if _, err := os.Stat(symbol.ReplaceAllString(said, "")); err != nil {
				t.Errorf("%s names %s: no such file", name, said)
			}
		}
	}
	if checked < 50 {
		t.Fatalf("only %d paths seen: the walk is broken", checked)
	}
}

// heldBy finds names of tests in a cell of a table.
var heldBy = regexp.MustCompile("`([A-Za-z.-]+)`")

// TestThreatModel: each line of what a party is trusted with names at least one test, and each test named is there.
func TestThreatModel(t *testing.T) {
	source, err := os.ReadFile("docs/security.md")
	if err != nil {
		t.Fatal(err)
	}
	tests := testNames(t)
	_, table, _ := strings.Cut(string(source), "## What each party is trusted with")
	table, _, _ = strings.Cut(table, "\n## ")
	table, _, _ = strings.Cut(table, "\n### ")
	lines := 0
	for row := range strings.Lines(table) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(row), "|"), "|")
		if len(cells) != 4 || strings.HasPrefix(cells[0], "---") || strings.TrimSpace(cells[0]) == "party" {
			continue
		}
		lines++
		named := heldBy.FindAllStringSubmatch(cells[3], -1)
		if len(named) == 0 {
			t.Errorf("no test holds: %s", row)
		}
		for _, m := range named {
			if !tests[m[1]] {
				t.Errorf("there is no test %s, which is to hold: %s", m[1], row)
			}
		}
	}
	if lines < 15 {
		t.Errorf("only %d lines seen: the table is read wrongly", lines)
	}
}

// testNames returns the test functions of the project, and its tests in guests.
func testNames(t *testing.T) map[string]bool {
	t.Helper()
	out := map[string]bool{}
	function := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`)
	guest := regexp.MustCompile(`(?m)^\t"([\w-]+\.[\w-]+)": `) // in a table, e2e/guest/*/tests.go
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(name) != ".go" {
			return err
		}
		table, _ := filepath.Match("e2e/guest/*/tests.go", filepath.ToSlash(name))
		pattern := function
		if table {
			pattern = guest
		} else if !strings.HasSuffix(name, "_test.go") {
			return nil
		}
		source, err := os.ReadFile(name)
		for _, m := range pattern.FindAllStringSubmatch(string(source), -1) {
			out[m[1]] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

var bar = regexp.MustCompile(`(?m)^(.+?) +(\d+) %  (█+)$`)

// TestBars: the bars of the README are as long as their figures, and the figures are those of the first column of the table that was counted.
func TestBars(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	table, err := os.ReadFile("bench/results/bottle.md")
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, row := range []string{"kernel alone", "NUMA balancing", "homenode"} {
		counted := regexp.MustCompile(`(?m)^\| ` + row + ` \| ([\d.]+)[^|]* % \|`).FindSubmatch(table)
		if counted == nil {
			t.Fatalf("the table in short has no row of %q", row)
		}
		want = append(want, string(counted[1]))
	}
	bars := bar.FindAllStringSubmatch(string(readme), -1)
	if len(bars) != len(want) {
		t.Fatalf("%d bars, want %d", len(bars), len(want))
	}
	for i, b := range bars {
		percent, err := strconv.ParseFloat(want[i], 64)
		if err != nil {
			t.Fatal(err)
		}
		if length := utf8.RuneCountInString(b[3]); b[2] != fmt.Sprintf("%.0f", percent) || length != int(percent/4) {
			t.Errorf("%s: %s %% and a bar of %d, of %s %%", b[1], b[2], length, want[i])
		}
	}
}

// TestSiteHasEveryPage: each page of the handbook is in the menu of the site, once, and each entry is a page.
func TestSiteHasEveryPage(t *testing.T) {
	menu, err := os.ReadFile("scripts/site/mkdocs.yml")
	if err != nil {
		t.Fatal(err)
	}
	count := map[string]int{}
	for _, entry := range regexp.MustCompile(`(?m)^ +- .*: (\S+\.md)$`).FindAllStringSubmatch(string(menu), -1) {
		count[entry[1]]++
		if _, err := os.Stat(entry[1]); err != nil {
			t.Errorf("the menu has %s: no such file", entry[1])
		}
	}
	for name := range readPages(t) {
		if strings.HasPrefix(name, "docs/") && filepath.Ext(name) == ".md" && count[name] != 1 {
			t.Errorf("%s is in the menu %d times", name, count[name])
		}
	}
}

// versioned finds the version of homenode in samples of output and in names of its files.
var versioned = regexp.MustCompile(`\bhomenode(?: v?|[-_])(\d+\.\d+\.\d+)\b`)

// TestSamplesNameThisVersion: samples, the chart, the plain manifests and the Python package have
// the version that VERSION names.
func TestSamplesNameThisVersion(t *testing.T) {
	if !regexp.MustCompile(`^\d+\.\d+\.\d+(-rc\d+)?$`).MatchString(Version()) {
		t.Errorf("VERSION has %q, want a number such as 0.2.0 or a candidate such as 0.3.0-rc1", Version())
	}
	seen := 0
	for name := range readPages(t) {
		// Both name other versions on purpose: what was, and what a newer one wrote.
		if name == "CHANGELOG.md" || name == "docs/upgrade.md" || strings.HasPrefix(name, "bench/results/") {
			continue
		}
		source, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range versioned.FindAllStringSubmatch(string(source), -1) {
			seen++
			if m[1] != Version() {
				t.Errorf("%s: %s, want %s", name, m[0], Version())
			}
		}
	}
	if seen < 2 {
		t.Errorf("only %d versions seen in samples: the walk is broken", seen)
	}
	for name, want := range map[string]string{
		"packaging/kube/chart/Chart.yaml":       "\nversion: " + Version() + "\nappVersion: " + Version() + "\n",
		"packaging/kube/homenode.yaml":          "image: \"homenode-kube:" + Version() + "\"",
		"integrations/openstack/pyproject.toml": "\nversion = \"" + Version() + "\"\n",
	} {
		source, err := os.ReadFile(name)
		if err != nil || !strings.Contains(string(source), want) {
			t.Errorf("%s does not have %q (%v); after a new VERSION: make generate", name, want, err)
		}
	}
}

func TestBrokenLinksAreFound(t *testing.T) {
	pages := map[string]page{"docs/a.md": {anchors: []string{"one"}}}
	for link, want := range map[string]string{
		"#one": "", "a.md#one": "", "https://example.org/a": "", "../README.md": "", "../bench": "",
		"#two":             "no such heading",
		"b.md":             "no such file",
		"../../secret.md":  "outside the project",
		"/docs/a.md":       "not a relative link",
		"../Makefile#a":    "not a document",
		"mailto:a@b.c":     "not a relative link",
		"file:///etc/motd": "not a relative link",
	} {
		if got := broken(pages, "docs/a.md", link); got != want {
			t.Errorf("%s: %q, want %q", link, got, want)
		}
	}
}

// TestConfigurationsStart: every YAML block of the documents is a catalogue of flavors, or a
// configuration file that suits the smallest machine it may be copied to, 2 CPUs on one node, and larger ones.
func TestConfigurationsStart(t *testing.T) {
	checked := 0
	for name, p := range readPages(t) {
		for _, block := range p.yaml {
			checked++
			if strings.HasPrefix(block, "flavors:") {
				if _, err := guest.ReadCatalogue(strings.NewReader(block), name); err != nil {
					t.Errorf("%v\n%s", err, block)
				}
				continue
			}
			c, err := config.Merge(config.New(), config.Layer{Name: name, Text: []byte(block)})
			if err != nil {
				t.Errorf("%v\n%s", err, block)
				continue
			}
			for _, host := range []string{"node:1(memory=4GiB) core:2", "package:2 node:1(memory=64GiB) core:8 pu:2"} {
				h, err := topology.FromSynthetic(host)
				if err != nil {
					t.Fatal(err)
				}
				if _, err := c.Suits(h); err != nil {
					t.Errorf("%s: on %q: %v\n%s", name, host, err, block)
				}
			}
		}
	}
	if checked < 2 {
		t.Fatalf("only %d YAML blocks seen: the walk is broken", checked)
	}
}

// TestCommandsAreKnown: every command line of the documents names a command and flags that
// there are.
func TestCommandsAreKnown(t *testing.T) {
	checked := 0
	for name, p := range readPages(t) {
		for _, line := range p.commands {
			checked++
			if err := parses(line); err != nil {
				t.Errorf("%s: %s: %v", name, line, err)
			}
		}
	}
	if checked < 50 {
		t.Fatalf("only %d commands seen: the walk is broken", checked)
	}
	for _, bad := range []string{"homenode stats", "homenode run --cpu 2 -- true", "homenode undo --al"} {
		if parses(bad) == nil {
			t.Errorf("%q is taken for a command", bad)
		}
	}
}

var word = regexp.MustCompile(`"[^"]*"|'[^']*'|\S+`)

// parses reports whether a command line is one of homenode's; nothing is run.
func parses(line string) error {
	var args []string
	for _, w := range word.FindAllString(line, -1)[1:] {
		if w == "|" || w == "&&" || w == ";" || strings.HasPrefix(w, "#") || strings.HasPrefix(w, ">") {
			break
		}
		args = append(args, strings.Trim(w, `"'`))
	}
	root := tree.Command()
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd(args...)
	c, rest, err := root.Find(args)
	if err != nil {
		return err
	}
	if c == root && len(rest) > 0 && !strings.HasPrefix(rest[0], "-") {
		return fmt.Errorf("no command %q", rest[0])
	}
	if err := c.ParseFlags(rest); err != nil && strings.Contains(err.Error(), "unknown") {
		return err // others come of words that stand for a value, such as N
	}
	return nil
}

// broken says why a link of a page leads nowhere.
func broken(pages map[string]page, from, link string) string {
	u, err := url.Parse(link)
	switch {
	case err != nil:
		return err.Error()
	case u.Scheme == "https" || u.Scheme == "http":
		return "" // tests run offline
	case u.Scheme != "" || strings.HasPrefix(u.Path, "/"):
		return "not a relative link"
	}
	to := from
	if u.Path != "" {
		to = path.Join(path.Dir(from), u.Path)
	}
	if !filepath.IsLocal(to) {
		return "outside the project"
	}
	p, ok := pages[to]
	if _, err := os.Stat(filepath.FromSlash(to)); err != nil && !ok {
		return "no such file"
	}
	switch {
	case u.Fragment == "":
		return ""
	case !ok:
		return "not a document"
	case !slices.Contains(p.anchors, u.Fragment):
		return "no such heading"
	}
	return ""
}

func readPages(t *testing.T) map[string]page {
	t.Helper()
	pages := map[string]page{}
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "testdata" || d.Name() == "out" || strings.HasPrefix(d.Name(), ".") && name != "."):
			return fs.SkipDir
		case d.IsDir():
			return nil
		}
		topic, _ := filepath.Match("docs/topics/*.txt", filepath.ToSlash(name))
		if filepath.Ext(name) != ".md" && !topic {
			return nil
		}
		source, err := os.ReadFile(name)
		pages[filepath.ToSlash(name)] = readPage(source)
		if topic { // its lines end with a word on what they do
			pages[filepath.ToSlash(name)] = page{commands: commands(afterwards.ReplaceAllString(string(source), "$1"))}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return pages
}

// afterwards is what a line of a topic of `homenode help` says of its command.
var afterwards = regexp.MustCompile(`(?m)^( +homenode .*?)   .*$`)

// command is a line of code that calls homenode, behind a prompt or without one. Samples
// of its first line of output, which begins with its name too, have two spaces in them.
var command = regexp.MustCompile(`^(?:[$#] )?(?:\./)?(homenode (?:[a-z-]+(?: [^ ].*)?|-.*))$`)

func commands(block string) (out []string) {
	for line := range strings.SplitSeq(strings.ReplaceAll(block, "\\\n", " "), "\n") {
		if c := command.FindStringSubmatch(strings.TrimSpace(line)); c != nil {
			out = append(out, c[1])
		}
	}
	return out
}

// byHand is the commands that have the names of other programs.
var byHand = []string{"numactl", "numad", "numastat", "taskset", "migratepages"}

// bare is a command of homenode in the text, with a flag and without the name of the program: "status --json".
func bare(said string) []string {
	first, rest, _ := strings.Cut(said, " ")
	flagged := strings.Contains(" "+rest, " -")
	if !flagged || slices.Contains(byHand, first) {
		return nil
	}
	for _, c := range tree.Command().Commands() {
		if c.Name() == first {
			return []string{"homenode " + said}
		}
	}
	return nil
}

var markdown = goldmark.New(goldmark.WithExtensions(extension.Table, extension.Linkify))

func readPage(source []byte) page {
	var p page
	_ = ast.Walk(markdown.Parser().Parse(text.NewReader(source)), func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		switch n := n.(type) {
		case *ast.Link:
			p.links = append(p.links, string(n.Destination))
		case *ast.Image:
			p.links = append(p.links, string(n.Destination))
		case *ast.FencedCodeBlock:
			text := string(n.Lines().Value(source))
			switch string(n.Language(source)) {
			case "yaml":
				p.yaml = append(p.yaml, text)
			case "console", "sh", "":
				p.commands = append(p.commands, commands(text)...)
			}
		case *ast.CodeBlock:
			p.commands = append(p.commands, commands(string(n.Lines().Value(source)))...)
		case *ast.CodeSpan:
			said := spanText(n, source)
			p.commands = append(p.commands, commands(said)...)
			p.commands = append(p.commands, bare(said)...)
			if strings.HasPrefix(said, "../") {
				p.links = append(p.links, said)
			}
			if ofProject.MatchString(said) {
				p.paths = append(p.paths, said)
			}
		case *ast.Heading:
			p.anchors = append(p.anchors, anchor(string(n.Lines().Value(source))))
		}
		return ast.WalkContinue, nil
	})
	return p
}

var noAnchor = regexp.MustCompile(`[^\p{L}\p{N}\p{M} _-]`)

// anchor is what GitHub makes of a heading: small letters, hyphens for spaces, no punctuation.
func anchor(heading string) string {
	return strings.ReplaceAll(strings.ToLower(noAnchor.ReplaceAllString(heading, "")), " ", "-")
}

func spanText(n *ast.CodeSpan, source []byte) string {
	var b strings.Builder
	for c := n.FirstChild(); c != nil; c = c.NextSibling() {
		if t, ok := c.(*ast.Text); ok {
			b.Write(t.Segment.Value(source))
		}
	}
	return b.String()
}
