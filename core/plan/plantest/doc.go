// Package plantest draws hosts for the tests of packages plan and place.
//
// Not in here: anything that is not a test's.
package plantest
