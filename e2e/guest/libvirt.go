//go:build linux

package main

func init() {
	tests["libvirt.up"] = libvirtUp
}

// libvirtUp: homenode reaches a libvirt with no guests.
func libvirtUp(t *T) {
	r := t.must(homenode("vm", "list"), exitOK)
	t.Textf("%s", r)
}
