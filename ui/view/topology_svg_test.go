package view

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// luminance is the relative luminance of a colour #rrggbb or #rgb (WCAG 2.2).
func luminance(t *testing.T, hex string) float64 {
	if hex = strings.TrimPrefix(hex, "#"); len(hex) == 3 {
		hex = fmt.Sprintf("%c%c%c%c%c%c", hex[0], hex[0], hex[1], hex[1], hex[2], hex[2])
	}
	n, err := strconv.ParseUint(hex, 16, 24)
	if err != nil {
		t.Fatal(err)
	}
	sum := 0.0
	for i, weight := range []float64{0.0722, 0.7152, 0.2126} {
		v := float64(n>>(8*i)&255) / 255
		if v <= 0.04045 {
			v /= 12.92
		} else {
			v = math.Pow((v+0.055)/1.055, 2.4)
		}
		sum += weight * v
	}
	return sum
}

// Figures of the matrices can be read, and the farther a node the more its colour stands out from
// the page, in the light picture and in the dark one.
func TestMatrixColours(t *testing.T) {
	light, dark, _ := strings.Cut(svgStyle, "@media(prefers-color-scheme:dark)")
	rule := regexp.MustCompile(`((?:\.[a-z]+\d?,?)+)\{fill:(#\w+)`)
	fill := map[string]string{}
	for i, style := range []string{light, dark} { // what the dark one does not say is as in the light one
		for _, m := range rule.FindAllStringSubmatch(style, -1) {
			for class := range strings.SplitSeq(m[1], ",") {
				fill[class] = m[2]
			}
		}
		page, before := luminance(t, fill[".page"]), 0.0
		for k := range 6 {
			cell, text := luminance(t, fill[fmt.Sprintf(".d%d", k)]), luminance(t, fill[fmt.Sprintf(".t%d", k)])
			if contrast := (max(cell, text) + 0.05) / (min(cell, text) + 0.05); contrast < 4.5 {
				t.Errorf("picture %d, shade %d: contrast %.1f, want 4.5", i, k, contrast)
			}
			if apart := math.Abs(cell - page); apart <= before {
				t.Errorf("picture %d: shade %d is nearer to the page than shade %d", i, k, k-1)
			} else {
				before = apart
			}
		}
	}
}
