// Package domain reads, edits and writes the XML by which libvirt describes a
// guest (https://libvirt.org/formatdomain.html).
//
// Words: a document is one such text; guest cells are the NUMA nodes that the
// guest sees.
//
// Nothing unknown is lost and nothing else is touched: an edit changes a tree
// (etree), and writing takes the bytes of everything that was not changed from
// the text that was read, at every depth, so quotes, blanks, comments and the
// order of attributes outside an edit stay as they were.
//
// Host side and guest side are apart. Place changes what the host does with the
// guest's threads and memory (cputune, numatune, homenode's own metadata) and may
// be done to any guest. Shape changes what the guest sees (topology, cells,
// pages) and is for new ones.
//
// Not in here: talking to libvirt (package libvirt), and decisions.
package domain
