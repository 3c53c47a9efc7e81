package doctor

import (
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/homenode/homenode/core/measure"
	"github.com/homenode/homenode/core/topology"
)

// TestFIFOInATree: opening one waits for a writer, for ever.
func TestFIFOInATree(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"proc/cmdline", "proc/cpuinfo", "proc/sys/kernel/numa_balancing", "proc/sys/kernel/osrelease",
		"sys/firmware/acpi/tables/SRAT", "sys/firmware/acpi/tables/SLIT", "sys/class/dmi", "sys/hypervisor/type"} {
		name = filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := syscall.Mkfifo(name, 0o644); err != nil {
			t.Skipf("make a FIFO: %v", err)
		}
	}
	h, err := topology.FromSynthetic("node:2 core:2 pu:1")
	if err != nil {
		t.Fatal(err)
	}
	reads := map[string]func(fs.FS){
		"gather":      func(f fs.FS) { Gather(f, h) },
		"firmware":    func(f fs.FS) { Firmware(f) },
		"capture":     func(f fs.FS) { Capture(f) },
		"fingerprint": func(f fs.FS) { measure.Fingerprint(f, h) },
		"virt":        func(f fs.FS) { measure.Virt(f) },
		"cmdline":     func(f fs.FS) { measure.Cmdline(f) },
	}
	for name, read := range reads {
		done := make(chan bool)
		go func() { read(os.DirFS(dir)); close(done) }()
		select {
		case <-done:
		case <-time.After(20 * time.Second):
			t.Errorf("%s is still reading after 20 s", name)
		}
	}
}
