//go:build linux

package lab

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// Nobody is the ID of a user and of a group without rights.
const Nobody = 65534

// AsNobody runs a command as an ordinary user.
func AsNobody(argv []string) error {
	if len(argv) == 0 {
		return errors.New("as-nobody: no command")
	}
	if err := errors.Join(syscall.Setgroups(nil), syscall.Setgid(Nobody), syscall.Setuid(Nobody)); err != nil {
		return fmt.Errorf("become nobody: %w", err)
	}
	return fmt.Errorf("run %s: %w", argv[0], syscall.Exec(argv[0], argv, os.Environ()))
}

// ViaNobody are the words before a command that run it as an ordinary user.
var ViaNobody = []string{Self, "as-nobody"}
