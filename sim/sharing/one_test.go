package sharing

import (
	"cmp"
	"os"
	"strconv"
	"strings"
	"testing"
)

// TestOneGoals logs the scores of scenarios ONLY (numbers with commas; all if empty) with goals.
func TestOneGoals(t *testing.T) {
	if os.Getenv("SEEDS") == "" {
		t.Skip("SEEDS is not set")
	}
	seeds, _ := strconv.Atoi(os.Getenv("SEEDS"))
	only := strings.Split(os.Getenv("ONLY"), ",")
	n, use, pos, vio, tot := 0.0, 0.0, 0.0, 0.0, 0.0
	for i, s := range GoalScenarios() {
		if os.Getenv("ONLY") != "" {
			found := false
			for _, o := range only {
				found = found || o == strconv.Itoa(i)
			}
			if !found {
				continue
			}
		}
		var u, v, p, a, r, tu, ce float64
		for seed := 1; seed <= seeds; seed++ {
			x, err := RunGoals(&s, cmp.Or(os.Getenv("POLICY"), Goals), uint64(seed))
			if err != nil {
				t.Error(err)
			}
			k := float64(seeds)
			u += x.Use / k
			v += x.Violated / k
			p += x.Possible / k
			ce += x.Certain / k
			a += x.Any / k
			r += x.Recovery / k
			tu += x.Turns / k
		}
		t.Logf("homenode, goals %2d %-34.34s use %.3f possible %.3f certain %.3f ratio %.2f violated %.4f any %.4f rec %.1f turns %.2f", i, s.Name, u, p, ce, u/ce, v, a, r, tu)
		n++
		use += u
		pos += p
		vio += v
		tot += tu
	}
	t.Logf("homenode, goals MEAN use %.4f possible %.4f violated %.4f turns %.3f", use/n, pos/n, vio/n, tot/n)
}
