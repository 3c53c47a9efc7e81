// Package docs holds what of the handbook the daemon serves.
package docs
