// Package libvirt reaches the guests of this host through libvirt-dbus
// (https://libvirt.org/dbus.html): it lists them, reads their XML and statistics,
// watches their events, defines, pins and binds them.
//
// libvirt's calls are methods of the D-Bus service org.libvirt, one object for
// each driver (/org/libvirt/QEMU) and one for each guest. The service is started
// by the bus; it talks to libvirt's daemon and so sees what virsh sees.
//
// A guest may vanish between any two calls. Errors about one that is gone wrap
// fs.ErrNotExist; a bus or service that does not answer is ErrUnavailable; what
// the bus or libvirt forbids wraps fs.ErrPermission.
//
// Not in here: the XML (package domain), decisions, and files of libvirt: its
// cgroups are libvirt's to write.
package libvirt
