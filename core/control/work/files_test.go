package work

import (
	"testing"

	"github.com/homenode/homenode/core/control/ordertest"
)

// TestFilesPointDown: each file uses declarations of files below it alone.
func TestFilesPointDown(t *testing.T) {
	ordertest.PointDown(t, []string{
		"work.go", "holds.go", "which.go", "loop.go", "task.go", "state.go", "todo.go", "transfer.go", "retry.go", "check.go", "write.go",
		"step.go", "move.go", "dispatch.go", "undo.go", "run.go",
	}, map[string]string{
		"step.go run.go":     "the end of a step begins the next one",
		"move.go run.go":     "the end of a page move begins the next step",
		"dispatch.go run.go": "a plan becomes tasks, and the end of a task goes on with the plan",
		"undo.go run.go":     "the end of an undo begins the task that waited for it",
	}, 20)
}
