package suite

import "testing"

// TestTurns: each test that takes turns exists, runs without being named, and runs in one turn of four.
func TestTurns(t *testing.T) {
	names := map[string]bool{}
	for _, s := range Shapes {
		names[s.Name] = !s.Slow
	}
	for _, x := range Tests {
		names[x.Name] = !x.Slow
	}
	for _, part := range turns {
		for _, name := range part {
			fast, known := names[name]
			if !known || !fast {
				t.Errorf("%s: known %v, fast %v; it cannot take turns", name, known, fast)
			}
		}
	}
	for _, s := range Shapes {
		for _, x := range ForShape(s.Name) {
			in := 0
			for number := range len(turns) {
				if InTurn(s.Name, x.Name, number) {
					in++
				}
			}
			if in != 1 && in != len(turns) {
				t.Errorf("%s in %s runs in %d of %d turns", x.Name, s.Name, in, len(turns))
			}
		}
	}
	if len(NotInTurn(1)) == 0 || InTurn("n4", "homenode.kill", 1) != InTurn("n4", "homenode.kill", 2) {
		t.Error("homenode.kill takes turns, or nothing does")
	}
}
