// Package scripts is what the Makefile calls; only its tests are Go.
package scripts

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// machine is a folder with programs of a machine where nothing is installed and nobody may
// install.
func machine(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"id": "echo 1000", "sudo": "exit 1", "dpkg-query": "exit 1", "apt-get": "echo installed; exit 1", "lstopo": "exit 0",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+text+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// run gives what a command printed, standard output first, and its exit status.
func run(t *testing.T, dir string, env []string, argv ...string) (out, errs string, status int) {
	t.Helper()
	c := exec.Command(argv[0], argv[1:]...)
	c.Dir, c.Env = dir, append(os.Environ(), env...)
	var o, e strings.Builder
	c.Stdout, c.Stderr = &o, &e
	err := c.Run()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return o.String(), e.String(), exit.ExitCode()
	} else if err != nil {
		t.Fatal(err)
	}
	return o.String(), e.String(), 0
}

// TestMayNotInstall: who may not install is told in one line all that is missing, and
// nothing is tried.
func TestMayNotInstall(t *testing.T) {
	env := []string{"PATH=" + machine(t) + ":" + os.Getenv("PATH")}
	out, errs, status := run(t, ".", env, "sh", "need.sh", "gcc", "hwloc-nox", "libc6-dev")
	const want = "missing, and you may not install: ask for `apt-get install gcc libc6-dev`\n"
	if out != "" || errs != want || status != 3 {
		t.Errorf("status %d, said %q and %q; want 3 and %q", status, out, errs, want)
	}
}

// TestNoApt: a machine of another family is told what is missing, in one line.
func TestNoApt(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"sh", "sed", "dirname", "grep"} {
		file, err := exec.LookPath(name)
		if err == nil {
			err = os.Symlink(file, filepath.Join(dir, name))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	out, errs, status := run(t, ".", []string{"PATH=" + dir}, "sh", "need.sh", "gcc", "libc6-dev")
	const want = "missing: gcc libc6-dev; this machine has no apt to install it with\n"
	if out != "" || errs != want || status != 3 {
		t.Errorf("status %d, said %q and %q; want 3 and %q", status, out, errs, want)
	}
}

// TestNoGo: make stops with what is missing, and does not go on without a compiler.
func TestNoGo(t *testing.T) {
	if _, err := exec.LookPath("make"); err != nil {
		t.Skip("no make")
	}
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "scripts"), 0o755); err != nil {
		t.Fatal(err)
	}
	makefile, err := os.ReadFile("../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"Makefile":            string(makefile),
		"scripts/need.sh":     "[ $1 != go ] || { echo 'missing: Go 9.9 or later'; exit 3; }\n",
		"scripts/released.sh": "exit 1\n", "scripts/version.sh": "echo 1\n", "scripts/progress.sh": "cat >&2\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, target := range []string{"build", "run"} {
		out, errs, status := run(t, dir, []string{"MAKEFLAGS=", "MAKELEVEL="}, "make", target)
		if status != 2 || !strings.Contains(errs, "missing: Go 9.9 or later") || strings.Contains(errs+out, "not found") {
			t.Errorf("make %s: status %d, said %q and %q", target, status, out, errs)
		}
	}
}

// TestVersion: dpkg and rpm sort a development build above the release before it and above
// builds of earlier commits, and below the next release.
func TestVersion(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("no git")
	}
	dir := t.TempDir()
	text, err := os.ReadFile("version.sh")
	if err != nil {
		t.Fatal(err)
	}
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "scripts"), 0o755); err != nil {
		t.Fatal(err)
	}
	write("scripts/version.sh", string(text))
	write("VERSION", "0.2.0\n")
	env := []string{"GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null", "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@b", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@b",
		"GIT_CEILING_DIRECTORIES=" + filepath.Dir(dir)}
	at := "2026-11-22T23:30:00-0100"
	git := func(argv ...string) string {
		t.Helper()
		out, errs, status := run(t, dir, append(env, "GIT_AUTHOR_DATE="+at, "GIT_COMMITTER_DATE="+at), append([]string{"git"}, argv...)...)
		if status != 0 {
			t.Fatalf("git %v: %s", argv, errs)
		}
		return strings.TrimSpace(out)
	}
	built := []string{"0.1.0"} // in the order in which they must sort
	is := func(want string) {
		t.Helper()
		out, errs, status := run(t, dir, env, "sh", "scripts/version.sh")
		if status != 0 || strings.TrimSpace(out) != want {
			t.Errorf("version %q (status %d, %s), want %q", out, status, errs, want)
		}
	}
	commit := func(message string) string {
		git("commit", "-q", "--allow-empty", "-a", "-m", message)
		return git("rev-parse", "HEAD")[:7]
	}
	is("0.2.0+source")
	git("init", "-q")
	git("add", ".")
	first := commit("one")
	is("0.2.0+git20261123.0030." + first)
	git("tag", "v0.1.0") // of another release
	is("0.2.0+git20261123.0030." + first)
	git("tag", "v0.2.0")
	is("0.2.0")
	built = append(built, "0.2.0")
	for _, at = range []string{"2026-11-23T09:05:00Z", "2026-11-23T10:00:00Z", "2026-12-01T00:00:00Z"} {
		version := "0.2.0+git" + strings.NewReplacer("-", "", ":", "", "T", ".").Replace(at[:16]) + "." + commit(at)
		is(version)
		built = append(built, version)
	}
	write("VERSION", "0.3.0-rc1\n")
	commit("candidate")
	git("tag", "-a", "-m", "two", "v0.3.0-rc1")
	is("0.3.0~rc1")
	later := commit("after the candidate")
	is("0.3.0~rc1+git20261201.0000." + later)
	built = append(built, "0.2.1", "0.3.0~rc1", "0.3.0~rc1+git20261201.0000."+later, "0.3.0")
	write("scripts/version.sh", string(text)+"\n")
	is("0.3.0~rc1+git20261201.0000." + later + "+dirty")
	if os.Geteuid() == 0 { // root in a clone of another user
		if err := os.Chown(dir, 65534, 65534); err != nil {
			t.Fatal(err)
		}
		is("0.3.0~rc1+git20261201.0000." + later + "+dirty")
	}
	sorted(t, built)
}

// sorted checks that dpkg and rpm, where they are, sort versions in that order.
func sorted(t *testing.T, versions []string) {
	t.Helper()
	for i, newer := range versions[1:] {
		older := versions[i]
		if _, err := exec.LookPath("dpkg"); err == nil {
			if _, _, status := run(t, ".", nil, "dpkg", "--compare-versions", newer+"-1", "gt", older+"-1"); status != 0 {
				t.Errorf("dpkg: %s does not sort above %s", newer, older)
			}
		}
		if _, err := exec.LookPath("rpm"); err == nil {
			if out, errs, _ := run(t, ".", nil, "rpm", "--eval", `%{lua:print(rpm.vercmp("`+newer+`", "`+older+`"))}`); strings.TrimSpace(out) != "1" {
				t.Errorf("rpm: %s does not sort above %s: %q %s", newer, older, out, errs)
			}
		}
	}
}

// TestRemovalRefused: where undo fails the package stays as it was: what starts the service is
// taken away after all is put back, and not before.
func TestRemovalRefused(t *testing.T) {
	for undo, disabled := range map[string]bool{"exit 1": false, "echo nothing to undo": true} {
		dir := t.TempDir()
		for name, text := range map[string]string{"homenode": undo, "systemctl": `echo "$*" >>` + dir + "/said"} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+text+"\n"), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		_, errs, status := run(t, ".", []string{"PATH=" + dir + ":" + os.Getenv("PATH")}, "sh", "../packaging/scripts/preremove.sh", "remove")
		said, _ := os.ReadFile(filepath.Join(dir, "said")) // none where nothing was called
		if (status == 0) != disabled || strings.Contains(string(said), "disable") != disabled || strings.Contains(errs, "is not removed") == disabled {
			t.Errorf("undo is %q: status %d, %q, systemctl %q", undo, status, errs, said)
		}
	}
}

// TestUninstall: what make install puts into the system, make uninstall takes away; a
// configuration that somebody has changed stays, until they say PURGE=1.
func TestUninstall(t *testing.T) {
	if _, err := exec.LookPath("make"); err != nil {
		t.Skip("no make")
	}
	dir := filepath.Join(t.TempDir(), "it's a folder") // as anybody may call one
	do := func(argv ...string) {
		t.Helper()
		argv = append([]string{"make", "-s", "-C", "..", "DESTDIR=" + dir, "BINARY=/bin/true", "SHOW=echo", "GO=go"}, argv...)
		if out, errs, status := run(t, ".", []string{"MAKEFLAGS=", "MAKELEVEL="}, argv...); status != 0 {
			t.Fatalf("%v: status %d: %s%s", argv, status, out, errs)
		}
	}
	left := func() (files []string) {
		t.Helper()
		err := filepath.WalkDir(dir, func(name string, d os.DirEntry, err error) error {
			if err == nil && !d.IsDir() {
				files = append(files, strings.TrimPrefix(name, dir))
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return files
	}
	do("tree")
	unit, err := os.ReadFile(filepath.Join(dir, "usr/local/lib/systemd/system/homenode.service"))
	if err != nil || !strings.Contains(string(unit), "ExecStart=/usr/local/bin/homenode ") {
		t.Errorf("the unit: %v, %s", err, unit)
	}
	if n := len(left()); n < 20 {
		t.Errorf("%d files were installed", n)
	}
	do("uninstall")
	if files := left(); len(files) > 0 {
		t.Errorf("left behind: %q", files)
	}
	do("tree")
	file := filepath.Join(dir, "etc/homenode.yaml")
	if err := os.WriteFile(file, []byte("mode: enforce\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	do("tree")
	if text, err := os.ReadFile(file); err != nil || string(text) != "mode: enforce\n" {
		t.Errorf("installed over a configuration: %v, %q", err, text)
	}
	do("uninstall")
	if files := left(); len(files) != 1 || files[0] != "/etc/homenode.yaml" {
		t.Errorf("left behind: %q; want the configuration alone", files)
	}
	do("uninstall", "PURGE=1")
	if files := left(); len(files) > 0 {
		t.Errorf("left behind after PURGE=1: %q", files)
	}
}
