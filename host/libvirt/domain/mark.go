package domain

import (
	"strconv"

	"github.com/beevik/etree"

	"github.com/homenode/homenode/core/guest"
	"github.com/homenode/homenode/core/workload"
)

// Namespace is that of homenode's element in a guest's metadata. It is a name,
// not a page.
const Namespace = "https://github.com/homenode/homenode/libvirt/1"

// Prefix is the one homenode writes for Namespace.
const Prefix = "homenode"

// Mark is homenode's element in a guest's metadata: what the guest is, and where
// homenode put it. A guest whose pins differ from the mark was pinned by someone
// else since.
type Mark struct {
	Flavor     string
	Class      workload.Class
	Importance int
	SMT        workload.SMTPolicy
	Emulator   guest.Emulator
	CPUs       string // list format, as it was written
	Nodes      string // list format, as it was written
}

// Mark is the document's, and whether it has one that can be read.
func (d *Document) Mark() (Mark, bool) {
	el := d.markElement()
	if el == nil {
		return Mark{}, false
	}
	m := Mark{
		Flavor: el.SelectAttrValue("flavor", ""), Importance: workload.DefaultImportance,
		SMT: workload.SMTPolicy(el.SelectAttrValue("smt", string(workload.SMTPrefer))), Emulator: guest.Emulator(el.SelectAttrValue("emulator", string(guest.Share))),
		CPUs: el.SelectAttrValue("cpus", ""), Nodes: el.SelectAttrValue("nodes", ""),
	}
	var err error
	if m.Class, err = workload.ParseClass(el.SelectAttrValue("class", "")); err != nil {
		return Mark{}, false
	}
	if n, err := strconv.Atoi(el.SelectAttrValue("importance", "")); err == nil && n >= 0 && n <= 100 {
		m.Importance = n
	}
	return m, true
}

func (d *Document) markElement() *etree.Element {
	metadata := d.at("metadata")
	if metadata == nil {
		return nil
	}
	for _, el := range metadata.ChildElements() {
		if el.Tag == "guest" && el.NamespaceURI() == Namespace {
			return el
		}
	}
	return nil
}

// element is the mark as XML, with its namespace.
func (m Mark) element() *etree.Element {
	el := etree.NewElement(Prefix + ":guest")
	el.CreateAttr("xmlns:"+Prefix, Namespace)
	m.fill(el)
	return el
}

func (m Mark) fill(el *etree.Element) {
	set := func(key, value string) {
		if value == "" {
			el.RemoveAttr(key)
		} else {
			el.CreateAttr(key, value)
		}
	}
	set("flavor", m.Flavor)
	set("class", string(m.Class))
	set("importance", strconv.Itoa(m.Importance))
	set("smt", string(m.SMT))
	set("emulator", string(m.Emulator))
	set("cpus", m.CPUs)
	set("nodes", m.Nodes)
}

// MarkText is the mark as libvirt takes it for itself, without a namespace, ""
// without a mark.
func (d *Document) MarkText() string {
	el := d.markElement()
	if el == nil {
		return ""
	}
	bare := etree.NewElement(el.Tag)
	for _, a := range el.Attr {
		if a.Space != "xmlns" && a.Key != "xmlns" {
			bare.CreateAttr(a.FullKey(), a.Value)
		}
	}
	return d.write(bare)
}
