// Package vm is the commands about virtual machines: vm and openstack.
//
// Not in here: domain XML, libvirt.
package vm
