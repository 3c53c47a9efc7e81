// Package config is the configuration file: its keys, their defaults and what they may be.
// What decisions go by is handed on as control.Settings.
package config
