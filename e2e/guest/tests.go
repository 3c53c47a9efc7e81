//go:build linux

package main

import (
	"maps"

	"github.com/homenode/homenode/e2e/guest/count"
	"github.com/homenode/homenode/e2e/guest/home"
	"github.com/homenode/homenode/e2e/guest/kernel"
	"github.com/homenode/homenode/e2e/guest/lab"
	"github.com/homenode/homenode/e2e/guest/runtimes"
	"github.com/homenode/homenode/e2e/guest/share"
)

// tables has the tests of each subject.
var tables = []lab.Tests{kernel.Tests, home.Tests, share.Tests, runtimes.Tests, count.Tests}

// tests maps the names of package suite to code.
var tests = joined(tables)

func joined(tables []lab.Tests) lab.Tests {
	all := lab.Tests{}
	for _, t := range tables {
		maps.Copy(all, t)
	}
	return all
}
