package control

import (
	"testing"
	"time"

	"github.com/homenode/homenode/core/control/work"
)

// A clock that is set back has nothing wait for as long.
func TestClockSetBack(t *testing.T) {
	f := scattered(t)
	f.fail = func(e *Effect) *Failure {
		switch {
		case e.Kind == EffectRead && e.Workload == "/a":
			return &Failure{Code: Failed, Text: "broken on purpose"}
		case e.Kind == EffectRead:
			return &Failure{Code: NoAnswer, Text: "no answer within 11s"}
		}
		return nil
	}
	f.scan(2)
	f.s.Overwrites["/a"] = work.Overwrite{Count: work.MostOverwrites, Last: f.now}
	f.fail = nil
	f.after(-365 * 24 * time.Hour)
	if f.scan(8); !f.settled("/a") || !f.settled("/b") {
		t.Errorf("retries %v, silent %v, overwrites %v", f.s.Retries, f.s.Silent, f.s.Overwrites)
	}
}
