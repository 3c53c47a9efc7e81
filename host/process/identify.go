package process

import (
	"os"

	"github.com/homenode/homenode/core/workload"
)

// Identify is a running process by PID and start time.
func Identify(pid int) (workload.Process, error) {
	s, err := proc{os.DirFS("/")}.stat(pid)
	return s.Process, err
}
