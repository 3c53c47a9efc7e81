// Package tree is the whole command tree: it joins the commands, and has help, completion,
// manual pages and what is printed on bad usage.
//
// Not in here: commands, but for version and help.
package tree
