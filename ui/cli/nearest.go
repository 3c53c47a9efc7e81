package cli

import "github.com/homenode/homenode/core/topology/strict"

// Nearest is the known word that a mistyped one most probably stands for; "" for none.
func Nearest(typed string, known []string) string { return strict.Nearest(typed, known) }
