package domain

import (
	"cmp"
	"slices"
	"strings"

	"github.com/beevik/etree"

	"github.com/homenode/homenode/core/workload"
)

// Attachments is what the guest is plugged into and its open files do not tell: the taps of its
// NICs, its disks with the servers of those on a network, and the sockets of what serves its NICs,
// disks, file systems (virtiofsd that libvirt does not start) and TPM.
func (d *Document) Attachments() (out []workload.Attachment) {
	devices := d.at("devices")
	if devices == nil {
		return nil
	}
	attr := func(el *etree.Element, tag, key string) string {
		if el = el.SelectElement(tag); el == nil {
			return ""
		}
		return el.SelectAttrValue(key, "")
	}
	socket := func(name, path string) {
		if strings.HasPrefix(path, "/") {
			out = append(out, workload.Attachment{Kind: workload.BySocket, Name: name, Path: path})
		}
	}
	for _, tag := range []string{"interface", "disk", "filesystem"} {
		for _, el := range devices.SelectElements(tag) {
			source := el.SelectElement("source")
			if source == nil {
				continue
			}
			name := cmp.Or(attr(el, "target", "dev"), attr(el, "target", "dir"))
			switch {
			case el.SelectAttrValue("type", "") == "vhostuser" && source.SelectAttrValue("mode", "client") == "client":
				socket(name, source.SelectAttrValue("path", ""))
			case tag == "filesystem":
				socket(name, source.SelectAttrValue("socket", ""))
			}
			for _, host := range source.SelectElements("host") {
				socket(name, host.SelectAttrValue("socket", ""))
			}
		}
	}
	for _, el := range devices.SelectElements("tpm") {
		if backend := el.SelectElement("backend"); backend != nil && backend.SelectAttrValue("type", "") == "external" {
			socket("tpm", attr(backend, "source", "path"))
		}
	}
	for _, el := range devices.SelectElements("interface") {
		kind := el.SelectAttrValue("type", "")
		if tap := attr(el, "target", "dev"); tap != "" &&
			slices.Contains([]string{"network", "bridge", "ethernet"}, kind) {
			out = append(out, workload.Attachment{Kind: workload.ByTap, Name: tap, Device: tap})
		}
	}
	for _, el := range devices.SelectElements("disk") {
		source := el.SelectElement("source")
		if source == nil {
			continue
		}
		if path := cmp.Or(source.SelectAttrValue("file", ""),
			source.SelectAttrValue("dev", "")); strings.HasPrefix(path, "/") {
			out = append(out, workload.Attachment{Kind: workload.ByBlock, Name: attr(el, "target", "dev"), Path: path})
		}
		if el.SelectAttrValue("type", "") != "network" {
			continue
		}
		a := workload.Attachment{Kind: workload.ByNetDisk, Name: attr(el, "target", "dev"),
			Protocol: source.SelectAttrValue("protocol", "")}
		for _, host := range source.SelectElements("host") {
			if name := strings.Trim(host.SelectAttrValue("name", ""), "[]"); name != "" {
				a.Servers = append(a.Servers, name)
			}
		}
		if a.Servers != nil {
			out = append(out, a)
		}
	}
	return out
}
