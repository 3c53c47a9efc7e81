package daemon

import (
	"slices"
	"testing"

	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
)

// TestExplainSaysOfCachesOnce: what a concern says of the newest scan is not repeated as it was when the home was chosen.
func TestExplainSaysOfCachesOnce(t *testing.T) {
	in := topology.CacheSet{}
	now := words.Reasons(words.Because(words.HomeKept, topology.Nodes(0)), words.Because(words.CacheSoon, 2e9))
	chosen := words.Reasons(words.Because(words.OnlyNode, 0), words.Because(words.CacheFewest, in, 2), words.Because(words.CacheKept, in, 6))
	got := words.Sentences(withChosen(now, chosen))
	want := append(words.Sentences(now), "When its home was chosen: "+chosen[0].String(), "When its home was chosen: "+chosen[1].String())
	if !slices.Equal(got, want) {
		t.Errorf("%q\nwant %q", got, want)
	}
}
