package workload

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestLives: Find returns the same index as a binary search.
func TestLives(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		draw := func(what string) []ID {
			ids := rapid.SliceOfDistinct(rapid.StringOfN(rapid.RuneFrom([]rune("ab/")), 0, 3, -1), rapid.ID[string]).Draw(t, what)
			slices.Sort(ids)
			out := make([]ID, len(ids))
			for i := range ids {
				out[i] = ID(ids[i])
			}
			return out
		}
		there, asked := draw("there"), draw("asked for")
		var l Lives
		for _, id := range there {
			l.All = append(l.All, Life{ID: id})
		}
		for _, id := range asked {
			i, ok := l.Find(id)
			want, has := slices.BinarySearch(there, id)
			if ok != has || ok && i != want {
				t.Fatalf("%q in %q: %d %v, want %d %v", id, there, i, ok, want, has)
			}
		}
	})
}
