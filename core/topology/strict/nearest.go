package strict

import (
	"strings"

	"github.com/agnivade/levenshtein"
)

// Nearest returns the known word that a mistyped one most probably stands for; "" for none. One
// edit in three letters is allowed, and any word that begins with what was typed.
func Nearest(typed string, known []string) string {
	best, least := "", len(typed)/3+2
	for _, k := range known {
		d := levenshtein.ComputeDistance(strings.ToLower(typed), strings.ToLower(k))
		begins := len(typed) >= 3 && strings.HasPrefix(k, typed)
		if begins {
			d = 1
		}
		if allowed := max(1, max(len(typed), len(k))/3); d <= allowed && d < least {
			best, least = k, d
		}
	}
	return best
}
