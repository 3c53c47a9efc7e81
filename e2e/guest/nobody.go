//go:build linux

package main

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

const nobody = 65534

// asNobody runs a command as an ordinary user.
func asNobody(argv []string) error {
	if len(argv) == 0 {
		return errors.New("as-nobody: no command")
	}
	if err := errors.Join(syscall.Setgroups(nil), syscall.Setgid(nobody), syscall.Setuid(nobody)); err != nil {
		return fmt.Errorf("become nobody: %w", err)
	}
	return fmt.Errorf("run %s: %w", argv[0], syscall.Exec(argv[0], argv, os.Environ()))
}

var viaNobody = []string{self, "as-nobody"}
