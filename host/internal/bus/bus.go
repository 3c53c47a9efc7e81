package bus

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/godbus/dbus/v5"
)

// Start starts a message bus, which is both system and session bus of this process until
// the test ends, and a connection to it for the service of the test. Without dbus-daemon
// the test is skipped.
func Start(t *testing.T) *dbus.Conn {
	t.Helper()
	daemon, err := exec.LookPath("dbus-daemon")
	if err != nil {
		t.Skip("no dbus-daemon here (package dbus-daemon)")
	}
	dir, err := os.MkdirTemp("", "bus") // short: the path of a socket has 107 bytes at most
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	address, config := "unix:path="+filepath.Join(dir, "s"), filepath.Join(dir, "conf")
	text := `<busconfig><type>session</type><listen>` + address + `</listen><auth>EXTERNAL</auth>
<policy context="default"><allow send_destination="*"/><allow receive_sender="*"/><allow own="*"/></policy></busconfig>`
	if err := os.WriteFile(config, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(daemon, "--config-file="+config, "--nofork", "--nopidfile", "--print-address")
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	if _, err := out.Read(make([]byte, 4096)); err != nil { // it has printed its address: it listens
		t.Fatalf("dbus-daemon: %v", err)
	}
	t.Setenv("DBUS_SYSTEM_BUS_ADDRESS", address)
	t.Setenv("DBUS_SESSION_BUS_ADDRESS", address)
	conn, err := dbus.Connect(address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}
