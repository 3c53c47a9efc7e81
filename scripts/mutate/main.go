// Mutate changes a package in small ways, one at a time, and runs the
// package's own tests on each: a mutant that survives is a line which no test
// holds in place. Run it as "make mutate PKG=./core/plan N=30".
//
// Most mutants are compiled together (see together.go). What is changed reaches the
// compiler by an overlay: nothing in the tree is written. A run is repeated with the seed it printed, as long as the
// files are the same. Some mutants are no different from the original (x < y for x <= y where equality changes
// nothing); they survive rightly. With -by ./core/control its tests run on each survivor, too.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

func main() {
	var r run
	seed := flag.Uint64("seed", 0, "draw the mutants of an earlier run; 0 draws others")
	flag.IntVar(&r.n, "n", 30, "how many mutants")
	files := flag.String("files", ".", "only files whose name matches this regular expression")
	at := flag.String("at", "", "every mutant of some lines instead of random ones, such as file.go:10,file.go:20-30")
	flag.StringVar(&r.match, "run", ".", "only tests that match this regular expression")
	flag.StringVar(&r.by, "by", "", "a `package` whose tests are tried on what survives those of the package itself")
	flag.DurationVar(&r.limit, "timeout", 0,
		"for one mutant's tests; 0 is three times what they take without a mutant, and 10 s")
	flag.Parse()
	if flag.NArg() != 1 {
		fmt.Fprintln(os.Stderr, "usage: mutate [flags] ./package")
		flag.PrintDefaults()
		os.Exit(2)
	}
	if r.seed = *seed; r.seed == 0 {
		r.seed = uint64(time.Now().UnixNano())
	}
	if err := r.all(flag.Arg(0), *files, *at); err != nil {
		fmt.Fprintln(os.Stderr, "mutate:", err)
		os.Exit(1)
	}
}

type run struct {
	seed  uint64
	n     int
	match string // the tests to run
	limit time.Duration
	dir   string // the package whose tests run
	by    string // the package whose tests run then; "" is none
	tmp   string
	flags []string // for the package's tests
	slow  string   // tests that take long, as a regular expression; a mutant that the others kill is not run on them
}

func (r *run) all(pkg, files, at string) error {
	match, err := regexp.Compile(files)
	if err != nil {
		return err
	}
	list, err := goList(pkg)
	if err != nil {
		return err
	}
	if r.tmp, err = os.MkdirTemp("", "mutate"); err != nil {
		return err
	}
	defer os.RemoveAll(r.tmp)
	r.testsOf(&list)
	var pool []site
	for _, name := range list.GoFiles {
		if !match.MatchString(name) {
			continue
		}
		fset := token.NewFileSet()
		path := filepath.Join(list.Dir, name)
		file, err := parser.ParseFile(fset, path, nil, parser.ParseComments)
		if err != nil {
			return err
		}
		if !ast.IsGenerated(file) {
			pool = append(pool, sites(fset, path, file)...)
		}
	}
	fmt.Printf("%s: %d sites; seed %d (again: -seed %d)\n", pkg, len(pool), r.seed, r.seed)
	drawn := draw(pool, r.seed)
	if at != "" {
		if drawn, err = on(pool, at); err != nil {
			return err
		}
		r.n = len(drawn)
	}
	return r.each(drawn)
}

// testsOf has the tests of a package run from now on.
func (r *run) testsOf(list *listed) {
	r.dir = list.Dir
	r.flags = nil
	r.slow = ""
	// A failing property test shrinks its case and keeps it in testdata: here
	// it is to fail, and no more.
	for _, path := range append(list.TestImports, list.XTestImports...) {
		if path == "pgregory.net/rapid" {
			r.flags = []string{"-rapid.nofailfile", "-rapid.shrinktime=0s",
				fmt.Sprintf("-rapid.seed=%d", max(1, r.seed>>1))}
		}
	}
}

// draw is one mutant of each site, in random order.
func draw(pool []site, seed uint64) []mutant {
	random := rand.New(rand.NewPCG(seed, 0))
	var drawn []mutant
	for _, i := range random.Perm(len(pool)) {
		drawn = append(drawn, pool[i][random.IntN(len(pool[i]))])
	}
	return drawn
}

// on is every mutant of the lines that at names.
func on(pool []site, at string) ([]mutant, error) {
	var found []mutant
	for place := range strings.SplitSeq(at, ",") {
		name, lines, ok := strings.Cut(place, ":")
		first, last, span := strings.Cut(lines, "-")
		if !span {
			last = first
		}
		from, err := strconv.Atoi(first)
		to, err2 := strconv.Atoi(last)
		if err = errors.Join(err, err2); err != nil || !ok {
			return nil, fmt.Errorf("-at %s: want file.go:10 or file.go:10-20", place)
		}
		for _, s := range pool {
			for _, m := range s {
				if line := m.line(); filepath.Base(m.file) == name && line >= from && line <= to {
					found = append(found, m)
				}
			}
		}
	}
	return found, nil
}

func (r *run) each(mutants []mutant) error {
	start := time.Now()
	killed, survivors, err := r.try(mutants, "")
	if err != nil {
		return err
	}
	all := killed + len(survivors)
	if r.by != "" && len(survivors) > 0 {
		list, err := goList(r.by)
		if err != nil {
			return err
		}
		fmt.Printf("%d of %d killed (%.0f %%) by the tests of the package\n", killed, all, percent(killed, all))
		r.testsOf(&list)
		r.limit, r.n = 0, len(survivors)
		more, _, err := r.try(survivors, " by "+r.by)
		if err != nil {
			return err
		}
		killed += more
	}
	fmt.Printf("%d of %d killed (%.0f %%), %s\n", killed, all, percent(killed, all),
		time.Since(start).Round(time.Second))
	return nil
}

func percent(part, all int) float64 { return 100 * float64(part) / float64(max(1, all)) }

// try runs the tests on mutants until as many as wanted have compiled.
func (r *run) try(mutants []mutant, by string) (killed int, survivors []mutant, err error) {
	start := time.Now()
	out, err := r.test(nil)
	if err != nil {
		return 0, nil, fmt.Errorf("the tests fail without a mutant: %w\n%s", err, out)
	}
	r.slow = slowOf(out)
	if r.limit == 0 {
		r.limit = 3*time.Since(start) + 10*time.Second
	}
	for len(mutants) > 0 && killed+len(survivors) < r.n {
		batch := mutants[:min(len(mutants), r.n-killed-len(survivors))]
		mutants = mutants[len(batch):]
		bin, how, err := r.together(batch)
		if err != nil {
			return killed, survivors, err
		}
		for i, m := range batch {
			var err error
			switch how[i] {
			case alone:
				_, err = r.test(&m)
			case amongOthers:
				_, err = r.tests(bin, i)
			case compilesNot:
				err = errCompile
			}
			switch {
			case errors.Is(err, errCompile):
			case err != nil:
				killed++
				fmt.Printf("killed    %s%s\n", m.where(), by)
			default:
				survivors = append(survivors, m)
				fmt.Printf("SURVIVED  %s\n%s", m.where(), m.diff())
			}
		}
	}
	return killed, survivors, nil
}

var errCompile = errors.New("does not compile")

// test builds the package's tests with m in place, or as they are, and runs them.
func (r *run) test(m *mutant) ([]byte, error) {
	replace := map[string]string{}
	if m != nil {
		src, err := os.ReadFile(m.file)
		if err != nil {
			return nil, err
		}
		replace[m.file] = string(src[:m.from]) + m.text + string(src[m.to:])
	}
	bin := filepath.Join(r.tmp, "tests")
	if out, err := r.build(bin, replace); err != nil {
		return out, err
	}
	return r.tests(bin, -1)
}

// build compiles the package's tests, with other contents for some files.
func (r *run) build(bin string, replace map[string]string) ([]byte, error) {
	paths := map[string]string{}
	for name, text := range replace {
		paths[name] = filepath.Join(r.tmp, filepath.Base(name))
		if err := os.WriteFile(paths[name], []byte(text), 0o600); err != nil {
			return nil, err
		}
	}
	text, err := json.Marshal(map[string]any{"Replace": paths})
	overlay := filepath.Join(r.tmp, "overlay.json")
	if err = errors.Join(err, os.WriteFile(overlay, text, 0o600)); err != nil {
		return nil, err
	}
	build := exec.Command("go", "test", "-c", "-vet=off", "-gcflags=-e", "-ldflags=-s -w", "-overlay", overlay, "-o",
		bin, ".")
	build.Dir = r.dir
	out, err := build.CombinedOutput()
	if err != nil {
		err = errCompile
	}
	return out, err
}

// tests runs the package's tests as they were built, with mutant i of several.
func (r *run) tests(bin string, i int) ([]byte, error) {
	ctx := context.Background()
	if r.limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, r.limit)
		defer cancel()
	}
	if r.slow == "" {
		return r.binary(ctx, i, bin, "-test.run", r.match)
	}
	if out, err := r.binary(ctx, i, bin, "-test.run", r.match, "-test.skip", r.slow); err != nil {
		return out, err
	}
	return r.binary(ctx, i, bin, "-test.run", r.slow)
}

func (r *run) binary(ctx context.Context, i int, bin string, args ...string) ([]byte, error) {
	// A mutant may append for ever: it gets 4 GiB of addresses and no more.
	args = append([]string{"-c", `ulimit -v 4194304; exec "$0" "$@"`, bin, "-test.failfast", "-test.v"},
		append(args, r.flags...)...)
	tests := exec.CommandContext(ctx, "sh", args...)
	tests.Dir = r.dir
	tests.Env = append(os.Environ(), fmt.Sprintf("MUTANT=%d", i))
	tests.WaitDelay = time.Second // a child of the tests may keep the pipe
	return tests.CombinedOutput()
}

var took = regexp.MustCompile(`(?m)^--- PASS: (\w+) \(([0-9.]+)s\)$`)

// slowOf finds the tests that took more than half a second in what -test.v wrote.
func slowOf(out []byte) string {
	var names []string
	for _, m := range took.FindAllSubmatch(out, -1) {
		if seconds, err := strconv.ParseFloat(string(m[2]), 64); err == nil && seconds > 0.5 {
			names = append(names, string(m[1]))
		}
	}
	if len(names) == 0 {
		return ""
	}
	return "^(" + strings.Join(names, "|") + ")$"
}

func (m *mutant) line() int {
	src, _ := os.ReadFile(m.file)
	return 1 + bytes.Count(src[:m.from], []byte("\n"))
}

func (m *mutant) where() string { return fmt.Sprintf("%s:%d", filepath.Base(m.file), m.line()) }

// diff is the lines that m changes, before and after.
func (m *mutant) diff() string {
	src, _ := os.ReadFile(m.file)
	from := bytes.LastIndexByte(src[:m.from], '\n') + 1
	to := len(src)
	if i := bytes.IndexByte(src[m.to:], '\n'); i >= 0 {
		to = m.to + i
	}
	before := string(src[from:to])
	after := string(src[from:m.from]) + m.text + string(src[m.to:to])
	return "    - " + strings.ReplaceAll(before, "\n", "\n    - ") + "\n    + " + strings.ReplaceAll(after, "\n",
		"\n    + ") + "\n"
}

type listed struct {
	Dir                                string
	GoFiles, TestImports, XTestImports []string
}

func goList(pkg string) (listed, error) {
	out, err := exec.Command("go", "list", "-json=Dir,GoFiles,TestImports,XTestImports", pkg).Output()
	if err != nil {
		return listed{}, fmt.Errorf("go list %s: %w", pkg, err)
	}
	var l listed
	return l, json.Unmarshal(out, &l)
}
