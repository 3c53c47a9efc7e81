//go:build linux

package runtimes

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/homenode/homenode/e2e/guest/lab"
)

// enforceFor is how long the package's daemon enforces: what homenode does in its first hour it does
// in its first minutes, and then rests.
const enforceFor = 10 * time.Minute

// systemdPackage: the deb is installed, starts nothing, watches when it is enabled, enforces when it
// is told to; when it is removed, settings and file system are as before.
func systemdPackage(t *lab.T) {
	os.Remove(Installed)
	os.Remove(installedUnit)
	os.Remove("/etc/homenode.yaml")
	lab.FreshState() // the history of other tests is not this one's
	t.Command("systemctl", "daemon-reload")
	t.Do(os.MkdirAll("/var/lib/dpkg/info", 0o755))
	t.Do(os.MkdirAll("/var/lib/dpkg/updates", 0o755))
	t.Do(os.WriteFile("/var/lib/dpkg/status", nil, 0o644))
	const program = "/usr/bin/homenode"
	t.OnFailure(func() {
		log := lab.Capture([]string{"journalctl", "-u", "homenode", "--no-pager", "-o", "cat"}, "")
		t.LogLines("journal", log.Out, 40)
		t.LogLines("status", lab.Capture([]string{program, "status"}, "").Out, 20)
	})
	db := serve(t, "system.slice", "db", "--slot 1 --mib 64 --threads 2 --place bind:3 --unbind")
	web := serve(t, "system.slice", "web", "--slot 3 --mib 32 --threads 1 --place interleave --unbind")
	settings := func() string {
		var s string
		for _, dir := range []string{db, web} {
			cpus, mems := lab.ReadText(dir+"/cpuset.cpus"), lab.ReadText(dir+"/cpuset.mems")
			s += fmt.Sprintf("%s: CPUs %q, nodes %q\n", dir, cpus, mems)
		}
		return s
	}
	// which are empty here alone: dpkg would take them away
	for _, dir := range []string{"/usr/share/doc/", "/usr/share/man/"} {
		t.Do(os.WriteFile(dir+"kept", nil, 0o644))
	}
	files, set := filesOnDisk(), settings()

	t.Command("dpkg", "--force-depends", "-i", "/e2e/homenode.deb")
	t.Defer(func() { lab.Capture([]string{"dpkg", "--purge", "homenode"}, "") })
	if s, e := Show(t, "homenode", "ActiveState"), Show(t, "homenode", "UnitFileState"); s != "inactive" ||
		e != "disabled" {
		t.Fatalf("after the installation the service is %s, %s", s, e)
	}
	t.Command("systemctl", "enable", "--now", "homenode")
	var s lab.Status
	t.Poll(lab.SystemdLimit, time.Second, "status", func() (bool, string) {
		r := lab.Capture([]string{program, "status", "--json"}, "status")
		return r.Exit == lab.ExitOK && json.Unmarshal([]byte(r.Out), &s) == nil && s.Mode == "observe", r.String()
	})
	if now := settings(); now != set {
		t.Fatalf("observe mode changed %s", now)
	}

	configure(t, "e2e")
	t.Command("systemctl", "restart", "homenode")
	awaitSet(t, db, oneNode)
	awaitSet(t, web, oneNode)
	start := time.Now()
	var quiet time.Time // since then nothing was changed
	changes := -1
	for time.Since(start) < enforceFor {
		lab.Warm(10 * time.Second)
		n := 0
		for _, e := range t.Events(t.Command(program, "history", "--json", "--limit", "0")) {
			if e.Error {
				t.Fatalf("%s of %s failed: %s", e.Code, e.Workload, e.Text)
			}
			n++
		}
		if n != changes {
			changes, quiet = n, time.Now()
		}
	}
	lines := strings.Count(t.Command("journalctl", "-u", "homenode", "--no-pager", "-o", "cat"), "\n")
	if time.Since(quiet) < enforceFor/2 {
		t.Fatalf("homenode still wrote events after %v", quiet.Sub(start))
	}
	used := Show(t, "homenode", "CPUUsageNSec")
	memory := Show(t, "homenode", "MemoryCurrent")

	t.Command("dpkg", "--purge", "homenode")
	if now := settings(); now != set {
		t.Fatalf("after the removal %s, was %s", now, set)
	}
	if d := difference(files, filesOnDisk()); len(d) > 0 {
		t.Fatalf("left behind or gone: %s", strings.Join(d[:min(10, len(d))], ", "))
	}
	if _, err := os.Stat("/run/homenode"); err == nil {
		t.Fatalf("/run/homenode is still there")
	}
	if s := Show(t, "homenode", "LoadState"); s != "not-found" {
		t.Fatalf("systemd has the unit still: %s", s)
	}
	t.Textf("%v in enforce mode: %d events, the last after %v; %d lines in the journal, %s ns of CPU, %s bytes; "+
		"nothing left behind", enforceFor, changes, quiet.Sub(start).Round(time.Second), lines, used, memory)
}

// filesOnDisk lists everything on the root's disk, with mode, owner, size and time of change of files,
// but for dpkg's own records, the journal and what is temporary.
func filesOnDisk() map[string]string {
	not := []string{"/proc", "/sys", "/dev", "/run", "/tmp", "/e2e", "/var/lib/dpkg", "/var/log", "/var/cache/ldconfig",
		"/etc/ld.so.cache"}
	r := map[string]string{}
	filepath.WalkDir("/", func(path string, d fs.DirEntry, _ error) error {
		if slices.Contains(not, path) {
			if d != nil && d.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		info, err := os.Lstat(path)
		if err != nil {
			return nil
		}
		text := info.Mode().String()
		if info.Mode().IsRegular() {
			text += fmt.Sprintf(" %d %d", info.Size(), info.ModTime().UnixNano())
		}
		if st, ok := info.Sys().(*syscall.Stat_t); ok {
			text += fmt.Sprintf(" %d:%d", st.Uid, st.Gid)
		}
		r[path] = text
		return nil
	})
	return r
}

func difference(before, after map[string]string) (d []string) {
	for path, text := range after {
		if before[path] != text {
			d = append(d, path+" now "+text+", was "+before[path])
		}
	}
	for path := range before {
		if _, ok := after[path]; !ok {
			d = append(d, path+" gone")
		}
	}
	slices.Sort(d)
	return d
}
