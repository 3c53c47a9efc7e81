// Package bus starts message buses for tests: a service of systemd's or libvirt's
// interface can then be exported by the test itself. It must hold no service, and nothing
// that ships imports it.
package bus
