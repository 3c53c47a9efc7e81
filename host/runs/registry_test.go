package runs

import (
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
	unlock, err := r.Lock()
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
	unlock, err := r.Lock()
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
	if _, err := r.Lock(); err == nil {
		t.Error("it writes where all can")
	}
}

// A pipe in the place of an entry holds nobody up, though somebody has it open for writing.
func TestPipeIsNoEntry(t *testing.T) {
	r := &Registry{Dir: filepath.Join(t.TempDir(), "runs"), Boot: "b", Processes: ended{}}
	unlock, err := r.Lock()
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
			unlock, err := r.Lock()
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
