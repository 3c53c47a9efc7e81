package heat

import (
	"regexp"
	"strconv"
	"testing"
)

// TestCurveTextInside: a long name of an axis is not cut at the edge of the picture.
func TestCurveTextInside(t *testing.T) {
	name := func(v float64) string { return trim(v) }
	c := Curve{Title: "t", X: "times the smallest host", Y: "times its decision", XName: name,
		Lines: []Line{{Name: "line", Points: [][2]float64{{1, 1}, {2, 3}}}}}
	texts := regexp.MustCompile(`<text x="([^"]*)" y="[^"]*" text-anchor="(\w+)"[^>]*>([^<]*)<`).FindAllStringSubmatch(c.SVG(), -1)
	if len(texts) < 8 {
		t.Fatalf("%d texts", len(texts))
	}
	for _, m := range texts {
		x, _ := strconv.ParseFloat(m[1], 64)
		w := charW * float64(len(m[3]))
		left := map[string]float64{"start": x, "middle": x - w/2, "end": x - w}[m[2]]
		if left < 0 || left+w > 760 {
			t.Errorf("%q goes from %.0f to %.0f of 760", m[3], left, left+w)
		}
	}
}
