module github.com/homenode/homenode/bench/probe

go 1.26.0

require (
	github.com/homenode/homenode v0.0.0
	golang.org/x/sys v0.49.0
)

replace github.com/homenode/homenode => ../..
