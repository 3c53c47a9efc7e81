package arrange

import (
	"os"
	"testing"

	"github.com/homenode/homenode/core/plan/plantest"
	"github.com/homenode/homenode/core/words"
)

func TestMain(m *testing.M) { os.Exit(plantest.Main(m)) }

const gib = plantest.GiB

// What the tests of placing share with those of arranging.
var (
	same                  = plantest.Same
	onHost, bigHost       = plantest.OnHost, plantest.Large
	vm, service, on       = plantest.VM, plantest.Service, plantest.Memory
	floating, dedicatedOn = plantest.Floating, plantest.Dedicated
	about                 = plantest.About
)

const twoNodes = plantest.TwoNodes

// says is one reason, of the values given or any.
func says(code words.Code, args ...any) []words.Reason {
	return words.Reasons(words.Because(code, args...))
}
