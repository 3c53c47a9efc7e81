package house

import (
	"math"

	"github.com/homenode/homenode/core/words"
)

// short is text that others may have chosen, fit to be shown.
func short(s string) string {
	s = words.Printable(s)
	if len(s) <= longestText {
		return s
	}
	if runes := []rune(s); len(runes) > longestText {
		return string(runes[:longestText-1]) + "…"
	}
	return s
}

// rounded has so many significant digits.
func rounded(x float64, digits int) float64 {
	if x == 0 || math.IsNaN(x) || math.IsInf(x, 0) {
		return 0
	}
	unit := math.Pow(10, math.Floor(math.Log10(math.Abs(x)))-float64(digits-1))
	if unit < 1 { // a division is exact where a multiplication with a fraction is not
		return math.Round(x*math.Round(1/unit)) / math.Round(1/unit)
	}
	return math.Round(x/unit) * unit
}

// rough is CPUs: tenths, and whole ones from ten on.
func rough(cpus float64) float64 {
	if cpus >= 10 {
		return math.Round(cpus)
	}
	return math.Round(cpus*10) / 10
}

func roughly(cpus *float64) *float64 {
	if cpus == nil {
		return nil
	}
	return new(rough(*cpus))
}

// percent is a share in whole percents.
func percent(share *float64) *float64 {
	if share == nil {
		return nil
	}
	return new(math.Round(*share*100) / 100)
}
