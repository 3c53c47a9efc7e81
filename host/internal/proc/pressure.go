package proc

import (
	"bytes"
	"strconv"
)

// Pressure is the share of the last ten seconds, in percent, in which some and all
// tasks waited: avg10 of "some avg10=0.00 avg60=0.00 avg300=0.00 total=0" and of
// "full …" (Documentation/accounting/psi.rst). It is false when neither is there.
func Pressure(b []byte) (some, full float64, ok bool) {
	for line := range bytes.Lines(b) {
		kind, rest, _ := bytes.Cut(line, []byte(" avg10="))
		word, _, _ := bytes.Cut(rest, []byte{' '})
		v, err := strconv.ParseFloat(string(bytes.TrimSpace(word)), 64)
		if err != nil || !(v >= 0 && v <= 100) {
			continue
		}
		switch string(kind) {
		case "some":
			some, ok = v, true
		case "full":
			full, ok = v, true
		}
	}
	return some, full, ok
}
