// Package ordertest has a test for packages whose files have an order: each file uses declarations of files
// below it alone.
package ordertest
