// Package settings is the configuration as far as decisions go by it. Package config reads it; the daemon hands it to
// control, and a checkpoint has it.
//
// It decides nothing: packages of control and the concerns read their part.
package settings
