// Package page tests the page in a real browser: Debian's chromium, driven by chromedp. It is a
// module of its own, so that nothing of this is in the product. Without a chromium the tests are
// skipped.
package page
