package cli

import "github.com/spf13/cobra"

// Command is the whole command tree with a system's defaults, for who writes
// manual pages of it.
func Command() *cobra.Command {
	return rootCommand(&Env{Getenv: func(string) string { return "" },
		DefaultSocket: "/run/homenode/homenode.sock", DefaultState: "/var/lib/homenode"})
}
