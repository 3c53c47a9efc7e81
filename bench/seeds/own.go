package main

import (
	"errors"
)

// own is what this program does for itself: the keeper, and programs that no package has.
func own(args []string) (done bool, err error) {
	if len(args) == 0 {
		return false, nil
	}
	switch args[0] {
	case "keeper":
		return true, keep()
	}
	return false, nil
}

var _ = errors.New
