package strict

import (
	"slices"
	"strings"

	"github.com/agnivade/levenshtein"
)

// sameLetters reports whether two words have the same letters in any order.
func sameLetters(a, b string) bool {
	x, y := []byte(strings.ToLower(a)), []byte(strings.ToLower(b))
	slices.Sort(x)
	slices.Sort(y)
	return slices.Equal(x, y)
}

// Nearest returns the known word that a mistyped one most probably stands for; "" for none. One
// edit in three letters is allowed, and any word that begins with what was typed.
func Nearest(typed string, known []string) string {
	best, least := "", len(typed)/3+2
	for _, k := range known {
		d := levenshtein.ComputeDistance(strings.ToLower(typed), strings.ToLower(k))
		switch {
		case d > 0 && len(typed) >= 3 && strings.HasPrefix(k, typed):
			d = 1
		case d == 2 && sameLetters(typed, k): // two that changed places are one slip
			d = 1
		}
		if allowed := max(1, max(len(typed), len(k))/3); d <= allowed && d < least {
			best, least = k, d
		}
	}
	return best
}
