package topology

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// TestFIFOInATree: opening one waits for a writer, for ever. Leaves that FromSysfs
// and Capture read are made one.
func TestFIFOInATree(t *testing.T) {
	dir := t.TempDir()
	put := func(name string) {
		name = filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := syscall.Mkfifo(name, 0o644); err != nil {
			t.Skipf("make a FIFO: %v", err)
		}
	}
	for name, text := range map[string]string{
		"sys/devices/system/cpu/online": "0-1\n", "sys/devices/system/node/online": "0\n",
		"sys/devices/system/node/node0/cpulist": "0-1\n", "sys/devices/system/node/node0/cpumap": "3\n",
		"sys/devices/system/node/node0/distance": "10\n",
	} {
		name = filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	put("sys/devices/system/node/node0/meminfo")
	put("sys/devices/system/node/has_memory")
	put("sys/devices/system/cpu/cpu0/topology/core_cpus_list")
	put("proc/self/status")
	put("sys/class/net")

	done := make(chan error, 1)
	go func() {
		fsys := Plain(os.DirFS(dir))
		_, err := FromSysfs(fsys)
		Capture(fsys)
		done <- err
	}()
	select {
	case <-done: // what cannot be read may be an error or a note
	case <-time.After(20 * time.Second):
		t.Fatal("still reading after 20 s")
	}
}
