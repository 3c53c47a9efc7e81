package scene

import (
	"testing"
	"time"

	"github.com/homenode/homenode/core/workload"
)

var tap = workload.Link{Kind: workload.ByTap, Device: "eth0", Counted: true}

// One burst of half a minute does not count.
func TestABurstIsNotLearned(t *testing.T) {
	a := Link{Link: tap, At: time.Unix(0, 0), Last: 0}
	b := tap
	b.Bytes = 3000 << 20
	x := counted([]Link{a}, b, time.Unix(30, 0), 0)
	if x.Rate != 0 || x.Last != 100 {
		t.Errorf("%+v", x)
	}
	if y := counted([]Link{x}, b, time.Unix(30, 0), 0); y.Rate != x.Rate || y.Last != x.Last || !y.At.Equal(x.At) { // not looked at since
		t.Errorf("%+v", y)
	}
	b.Bytes += 6000 << 20
	if y := counted([]Link{x}, b, time.Unix(60, 0), 0); y.Rate != 100 || y.Last != 200 {
		t.Errorf("%+v", y)
	}
	other := b
	other.Device = "eth1"
	if y := counted([]Link{x}, other, time.Unix(60, 0), 0); y.Rate != 0 || y.Last != -1 {
		t.Errorf("of another device: %+v", y)
	}
	b.Counted = false
	if y := counted([]Link{x}, b, time.Unix(60, 0), 0); y.Rate != -1 {
		t.Errorf("what nothing counts: %+v", y)
	}
}
