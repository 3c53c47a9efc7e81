// Package caches is the concern for last-level caches and memory bandwidth: batch work has one group
// of resctrl, with a share of the ways and of the bandwidth. Where memory bandwidth is counted the share
// follows what important work suffers.
package caches
