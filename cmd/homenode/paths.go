package main

import (
	"os"
	"path/filepath"
	"strconv"
)

// machine is where this machine's proc/ and sys/ are; tests make up another.
var machine = "/"

// configFile is read when it is there and --config does not name another.
const configFile = "/etc/homenode.yaml"

// systemState is where root's daemon keeps its journal.
const systemState = "/var/lib/homenode"

// Root's daemon has the system's folders; a user's own, which can look but not
// touch others, has the user's (XDG Base Directory Specification).

func defaultState() string {
	if os.Geteuid() == 0 {
		return systemState
	}
	if dir := os.Getenv("XDG_STATE_HOME"); dir != "" {
		return filepath.Join(dir, "homenode")
	}
	if home, err := os.UserHomeDir(); err == nil {
		return filepath.Join(home, ".local", "state", "homenode")
	}
	return filepath.Join(os.TempDir(), "homenode-state-"+strconv.Itoa(os.Geteuid()))
}

func defaultSocket() string {
	system := filepath.Join(machine, "run/homenode/homenode.sock")
	if os.Geteuid() == 0 {
		return system
	}
	// The system's daemon, if this user may talk to it, knows more.
	if f, err := os.Stat(system); err == nil && f.Mode().Perm()&0o006 == 0o006 {
		return system
	}
	return userSocket()
}

func userSocket() string {
	if dir := os.Getenv("XDG_RUNTIME_DIR"); dir != "" {
		return filepath.Join(dir, "homenode", "homenode.sock")
	}
	return filepath.Join(os.TempDir(), "homenode-"+strconv.Itoa(os.Geteuid()), "homenode.sock")
}
