package runs

import (
	"encoding/json"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// ended has the processes that it names end.
type ended map[workload.Process]bool

func (e ended) Ended(all []workload.Process) (out []workload.Process) {
	for _, p := range all {
		if e[p] {
			out = append(out, p)
		}
	}
	return out
}

func run(pid int) Run {
	p := workload.Process{PID: pid, Start: 9}
	return Run{Process: p, Name: "x", Had: topology.CPUs(0, 1), Placement: workload.Placement{Workload: workload.ID(plan.ProcessPath(p)), Class: workload.Shared, VCPUs: 1, CPUs: topology.CPUs(1), Home: topology.Nodes(0)}}
}

func living(t *testing.T, r *Registry) []Run {
	t.Helper()
	all, err := r.Living(os.Geteuid())
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestRegistry(t *testing.T) {
	dead := ended{}
	r := &Registry{Dir: filepath.Join(t.TempDir(), "homenode", "runs"), Boot: "b", Processes: dead}
	if got := living(t, r); len(got) != 0 {
		t.Fatalf("a folder that is missing: %v", got)
	}
	unlock, err := r.Lock(false)
	if err != nil {
		t.Fatal(err)
	}
	for pid := 1; pid < 4; pid++ {
		if err := r.Put(run(pid)); err != nil {
			t.Fatal(err)
		}
	}
	again := run(2) // a run within a run: what it had first counts
	again.Had = topology.CPUs(1)
	if err := r.Put(again); err != nil {
		t.Fatal(err)
	}
	unlock()
	dead[workload.Process{PID: 3, Start: 9}] = true
	all := living(t, r)
	if len(all) != 2 || all[1].Process.PID != 2 || all[1].Had.String() != "0-1" || all[1].Placement.CPUs.String() != "1" {
		t.Fatalf("%+v", all)
	}
	if _, err := os.Stat(filepath.Join(r.Dir, "3@9")); err == nil {
		t.Error("what has ended is still there")
	}
	if r.Boot = "another"; len(living(t, r)) != 0 {
		t.Error("runs of another boot")
	}
}

// TestNotBelieved: garbage, what names another process than its file, and a folder that others
// can write count for nothing, and stop nobody.
func TestNotBelieved(t *testing.T) {
	r := &Registry{Dir: filepath.Join(t.TempDir(), "runs"), Boot: "b", Processes: ended{}}
	unlock, err := r.Lock(false)
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	if err := r.Put(run(1)); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(r.Dir, "1@9"))
	for name, content := range map[string]string{"2@9": string(text), "3@9": "{", "4@9": "", "notes": "x"} {
		if err == nil {
			err = os.WriteFile(filepath.Join(r.Dir, name), []byte(content), 0o644)
		}
	}
	if err == nil {
		err = os.Symlink("/dev/zero", filepath.Join(r.Dir, "5@9"))
	}
	if err != nil {
		t.Fatal(err)
	}
	if all := living(t, r); len(all) != 1 || all[0].Process.PID != 1 {
		t.Errorf("%+v", all)
	}
	if all, err := r.Living(os.Geteuid() + 1); err == nil {
		t.Errorf("of another user: %+v", all)
	}
	if err := os.Chmod(r.Dir, 0o777); err != nil {
		t.Fatal(err)
	}
	if all, err := r.Living(os.Geteuid()); err == nil {
		t.Errorf("where all can write: %+v", all)
	}
	if _, err := r.Lock(false); err == nil {
		t.Error("it writes where all can")
	}
}

// A pipe in the place of an entry holds nobody up, though somebody has it open for writing.
func TestPipeIsNoEntry(t *testing.T) {
	r := &Registry{Dir: filepath.Join(t.TempDir(), "runs"), Boot: "b", Processes: ended{}}
	unlock, err := r.Lock(false)
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	pipe := filepath.Join(r.Dir, "4@9")
	if err := unix.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	writer, err := os.OpenFile(pipe, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	// A read that waits ends with the writer.
	time.AfterFunc(10*time.Second, func() { writer.Close() })
	start := time.Now()
	if all := living(t, r); len(all) != 0 {
		t.Errorf("%+v", all)
	}
	if writer.Close() != nil {
		t.Errorf("the pipe was read for %v", time.Since(start))
	}
}

// TestLock: runs at the same time come one after the other.
func TestLock(t *testing.T) {
	r := &Registry{Dir: filepath.Join(t.TempDir(), "runs"), Boot: "b", Processes: ended{}}
	var wait sync.WaitGroup
	var inside, n atomic.Int32
	for range 8 {
		wait.Go(func() {
			unlock, err := r.Lock(false)
			if err != nil {
				t.Error(err)
				return
			}
			if inside.Add(1) != 1 {
				t.Error("two have the lock")
			}
			time.Sleep(time.Millisecond)
			n.Add(1)
			inside.Add(-1)
			unlock()
		})
	}
	wait.Wait()
	if n.Load() != 8 {
		t.Errorf("%d of 8", n.Load())
	}
}

// TestUmask: root's folder and entries can be read by all, a user's by that user alone,
// whatever the umask is.
func TestUmask(t *testing.T) {
	for _, umask := range []int{0o077, 0, 0o027} {
		for forAll, want := range map[bool][3]os.FileMode{true: {0o755, 0o755, 0o644}, false: {0o700, 0o700, 0o600}} {
			r := &Registry{Dir: filepath.Join(t.TempDir(), "homenode", "runs"), ForAll: forAll, Boot: "b", Processes: ended{}}
			old := unix.Umask(umask)
			unlock, err := r.Lock(false)
			if err == nil {
				err = r.Put(run(1))
				unlock()
			}
			unix.Umask(old)
			if err != nil {
				t.Fatal(err)
			}
			for i, path := range []string{filepath.Dir(r.Dir), r.Dir, filepath.Join(r.Dir, "1@9")} {
				if st, err := os.Stat(path); err != nil || st.Mode().Perm() != want[i] {
					t.Errorf("umask %03o, for all %v: %s: %v %v, want %v", umask, forAll, path, st.Mode().Perm(), err, want[i])
				}
			}
		}
	}
}

// TestTrustedPath: a folder is believed only when others can put nothing in its place.
func TestTrustedPath(t *testing.T) {
	top := t.TempDir() // in /tmp, which is sticky
	at := func(path ...string) string { return filepath.Join(append([]string{top}, path...)...) }
	lock := func(dir string) error {
		r := &Registry{Dir: dir, Boot: "b", Processes: ended{}}
		unlock, err := r.Lock(false)
		unlock()
		return err
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	mode := func(mode os.FileMode, path ...string) { t.Helper(); must(os.Chmod(at(path...), mode)) }
	must(lock(at("a", "b", "runs")))

	mode(0o777, "a")
	if lock(at("a", "b", "runs")) == nil {
		t.Error("others can write a folder above the one above")
	}
	mode(0o777|os.ModeSticky, "a")
	must(lock(at("a", "b", "runs")))
	mode(0o755, "a")
	mode(0o777|os.ModeSticky, "a", "b", "runs") // others can add to it
	if lock(at("a", "b", "runs")) == nil {
		t.Error("others can write the folder, which is sticky")
	}
	mode(0o700, "a", "b", "runs")

	// What a link leads to counts, and where the link is.
	must(os.Symlink("../a/b", at("a", "link")))
	must(lock(at("a", "link", "runs")))
	must(os.Symlink(at("a", "b", "runs"), at("a", "last")))
	if lock(at("a", "last")) == nil {
		t.Error("the folder is a link")
	}
	must(os.Mkdir(at("open"), 0o755))
	mode(0o777, "open")
	must(os.Symlink(at("a", "b"), at("open", "b")))
	must(os.Symlink(at("open", "b"), at("a", "round")))
	if lock(at("a", "round", "runs")) == nil {
		t.Error("a link leads through one that others can change")
	}
	must(os.Symlink("../a/link/../b", at("a", "up")))
	if lock(at("a", "up", "runs")) == nil {
		t.Error("a link leads up from another link")
	}
	must(os.Symlink("loop", at("a", "loop")))
	if lock(at("a", "loop", "runs")) == nil {
		t.Error("a link to itself")
	}

	// A folder of a third user's is his to rename.
	if os.Geteuid() == 0 {
		must(os.Chown(at("a"), 12345, 12345))
		if lock(at("a", "b", "runs")) == nil {
			t.Error("a folder above is of another user")
		}
		must(os.Chown(at("a"), 0, 12345))
		mode(0o775, "a")
		if lock(at("a", "b", "runs")) == nil {
			t.Error("a group of root's may write a folder above")
		}
	}
}

// TestUnfinished: an entry that could not be written leaves nothing behind and what was
// there before; one that was cut short goes with its process.
func TestUnfinished(t *testing.T) {
	dead := ended{}
	r := &Registry{Dir: filepath.Join(t.TempDir(), "runs"), Boot: "b", Processes: dead}
	unlock, err := r.Lock(false)
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	if err := r.Put(run(1)); err != nil {
		t.Fatal(err)
	}
	var was unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_FSIZE, &was); err != nil {
		t.Fatal(err)
	}
	few := was
	few.Cur = 16 // bytes, as on a disk that is full
	for pid := range 2 {
		if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &few); err != nil {
			t.Fatal(err)
		}
		err := r.Put(run(1 + pid))
		if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &was); err != nil {
			t.Fatal(err)
		}
		if err == nil {
			t.Error("nothing is said of an entry that was not written")
		}
	}
	if all := living(t, r); len(all) != 1 || all[0].Process.PID != 1 {
		t.Errorf("%+v", all)
	}
	for _, pid := range []int{4, 5} {
		if err := os.WriteFile(filepath.Join(r.Dir, plan.ProcessPath(run(pid).Process)+".new"), []byte("{"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	dead[run(4).Process] = true
	living(t, r)
	left, err := filepath.Glob(filepath.Join(r.Dir, "*.new"))
	if err != nil || len(left) != 1 || filepath.Base(left[0]) != "5@9.new" {
		t.Errorf("left behind: %q %v", left, err)
	}
}

// TestScopeOfBefore: a run that version 0.1 wrote down, which said offline for batch.
func TestScopeOfBefore(t *testing.T) {
	for text, want := range map[string]bool{
		`{"name": "a", "placement": {"class": "offline"}, "tier": "offline", "scope": {"unit": "/homenode-offline/7", "offline": true, "from": "/a"}}`: true,
		`{"name": "a", "placement": {"class": "batch"}, "tier": "batch", "scope": {"unit": "/homenode-offline/7", "batch": true, "from": "/a"}}`:       true,
		`{"name": "a", "placement": {"class": "batch"}, "tier": "batch", "scope": {"unit": "/homenode-offline/7", "from": "/a"}}`:                      false,
	} {
		var r Run
		if err := json.Unmarshal([]byte(text), &r); err != nil || r.Scope.Batch != want || r.Scope.From != "/a" || r.Placement.Class != workload.Batch || r.Tier != workload.BatchTier {
			t.Errorf("%s: %+v, %v", text, r.Scope, err)
		}
	}
}
