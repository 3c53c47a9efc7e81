//go:build linux

package main

import (
	"testing"

	"github.com/homenode/homenode/e2e/suite"
)

// Both sides of the rig must know the same tests.
func TestTestsMatchSuite(t *testing.T) {
	listed := map[string]bool{}
	for _, s := range suite.Tests {
		_, here := tests[s.Name]
		if elsewhere := s.OnHost || s.Alone; here == elsewhere {
			t.Errorf("%s: on the host %v, code in the guest %v", s.Name, s.OnHost, here)
		}
		listed[s.Name] = true
	}
	for name := range tests {
		if !listed[name] {
			t.Errorf("%s: not in package suite", name)
		}
	}
}

// A name in two tables would hide one of the tests.
func TestTablesShareNoName(t *testing.T) {
	sum := 0
	for _, table := range tables {
		sum += len(table)
	}
	if sum != len(tests) {
		t.Errorf("%d tests in all tables, %d names", sum, len(tests))
	}
}
