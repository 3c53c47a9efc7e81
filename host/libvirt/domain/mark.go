package domain

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"github.com/beevik/etree"

	"github.com/homenode/homenode/core/guest"
	"github.com/homenode/homenode/core/topology"
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
	Tier       workload.Tier
	Importance int
	SMT        workload.SMTPolicy
	Emulator   guest.Emulator
	// Composed is a guest that is placed cell by cell, each on a node of its own, and Own its
	// vCPUs that have a CPU of their own.
	Composed bool
	Own      string // list format

	Only  string // nodes it may use for good, list format; "" for any
	Exact int    // nodes it is on; 0 for as many as it takes

	Near string // what it is to be near to, as workload.ParseNear reads it
	SLO  string // latency goal without blanks, as workload.ParseGoal reads it; "" for none

	CPUs  string // list format, as it was written
	Nodes string // list format, as it was written

	// Shares is the CPU weight that homenode gave a guest without one; "" when it has its
	// own.
	Shares string

	// Added is elements that were not there before the first mark, of "vcpu", "numa" and "cpu".
	Added string

	// Where homenode is moving it as it runs, in list format; "" unless it is in
	// the middle of that, or was left there. Its bindings are then some of both.
	ToCPUs, ToNodes string
}

// Mark is the document's, and whether it has one that can be read.
func (d *Document) Mark() (Mark, bool) {
	el := d.markElement()
	if el == nil {
		return Mark{}, false
	}
	m := Mark{
		Flavor: el.SelectAttrValue("flavor", ""), Importance: workload.DefaultImportance,
		SMT:      workload.SMTPolicy(el.SelectAttrValue("smt", string(workload.SMTPrefer))),
		Emulator: guest.Emulator(el.SelectAttrValue("emulator", string(guest.Share))),
		CPUs:     el.SelectAttrValue("cpus", ""), Nodes: el.SelectAttrValue("nodes", ""),
		Shares: el.SelectAttrValue("shares", ""), Added: el.SelectAttrValue("added", ""),
		ToCPUs: el.SelectAttrValue("to-cpus", ""), ToNodes: el.SelectAttrValue("to-nodes", ""),
	}
	var err error
	m.Only = el.SelectAttrValue("only-nodes", "")
	if _, err := topology.ParseNodeSet(m.Only); err != nil {
		return Mark{}, false
	}
	if m.Near = el.SelectAttrValue("near", ""); m.Near != "" {
		if _, err := workload.ParseNear(m.Near); err != nil {
			return Mark{}, false
		}
	}
	m.SLO = strings.Join(strings.Fields(el.SelectAttrValue("slo", "")), "") // About separates words by blanks
	if m.SLO != "" {
		if _, err := workload.ParseGoal(m.SLO); err != nil {
			return Mark{}, false
		}
	}
	if n, err := strconv.Atoi(el.SelectAttrValue("exact-nodes", "")); err == nil && n > 0 {
		m.Exact = n
	}
	if own := el.SelectAttr("own"); own != nil {
		m.Composed, m.Own = true, own.Value
		if _, err := topology.ParseSet[int](m.Own); err != nil {
			return Mark{}, false
		}
	}
	if m.Class, err = workload.ParseClass(el.SelectAttrValue("class", "")); err != nil {
		return Mark{}, false
	}
	if m.Tier, err = workload.ParseTier(el.SelectAttrValue("tier", "")); err != nil {
		m.Tier = ""
	}
	if n, err := strconv.Atoi(el.SelectAttrValue("importance", "")); err == nil && n >= 0 && n <= 100 {
		m.Importance = n
	}
	return m, true
}

func (d *Document) markElement() *etree.Element {
	return d.metadata(func(el *etree.Element) bool { return el.Tag == "guest" && el.NamespaceURI() == Namespace })
}

// novas is the namespaces of OpenStack Nova's element in a guest's metadata, before their
// version (nova/virt/libvirt/config.py, LibvirtConfigGuestMetaNovaInstance).
const novas = "http://openstack.org/xmlns/libvirt/nova/"

// nova reports whether OpenStack Nova defined the guest.
func (d *Document) nova() bool {
	return d.metadata(func(el *etree.Element) bool {
		return el.Tag == "instance" && strings.HasPrefix(el.NamespaceURI(), novas)
	}) != nil
}

// metadata is the first element of the metadata that fits.
func (d *Document) metadata(fits func(*etree.Element) bool) *etree.Element {
	metadata := d.at("metadata")
	if metadata == nil {
		return nil
	}
	for _, el := range metadata.ChildElements() {
		if fits(el) {
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

// fill writes all in one order: what came and went leaves the bytes that were.
func (m Mark) fill(el *etree.Element) {
	set := func(key, value string) {
		el.RemoveAttr(key)
		if value != "" {
			el.CreateAttr(key, value)
		}
	}
	set("flavor", m.Flavor)
	set("class", string(m.Class))
	set("tier", string(m.Tier))
	set("importance", strconv.Itoa(m.Importance))
	set("smt", string(m.SMT))
	set("emulator", string(m.Emulator))
	el.RemoveAttr("own")
	if m.Composed {
		el.CreateAttr("own", m.Own)
	}
	set("only-nodes", m.Only)
	exact := ""
	if m.Exact > 0 {
		exact = strconv.Itoa(m.Exact)
	}
	set("near", m.Near)
	set("slo", m.SLO)
	set("exact-nodes", exact)
	set("cpus", m.CPUs)
	set("nodes", m.Nodes)
	set("shares", m.Shares)
	set("added", m.Added)
	set("to-cpus", m.ToCPUs)
	set("to-nodes", m.ToNodes)
}

// Intend has the mark tell that the guest is being moved to more CPUs or nodes, "" for as
// they are. Where an earlier move left it stays in it.
func (m *Mark) Intend(toCPUs, toNodes string) error {
	cpus, nodes, err := m.left()
	if err != nil {
		return err
	}
	m.CPUs, m.Nodes = cpus.String(), nodes.String()
	m.ToCPUs, m.ToNodes = cmp.Or(toCPUs, m.CPUs), cmp.Or(toNodes, m.Nodes)
	return nil
}

// left is all that a move which did not end may have left the guest on.
func (m Mark) left() (cpus topology.CPUSet, nodes topology.NodeSet, err error) {
	for _, text := range []string{m.CPUs, m.ToCPUs} {
		set, err := parseSet[topology.CPUID](text)
		if err != nil {
			return cpus, nodes, fmt.Errorf("homenode's mark: CPUs: %w", err)
		}
		cpus = cpus.Union(set)
	}
	for _, text := range []string{m.Nodes, m.ToNodes} {
		set, err := parseSet[topology.NodeID](text)
		if err != nil {
			return cpus, nodes, fmt.Errorf("homenode's mark: nodes: %w", err)
		}
		nodes = nodes.Union(set)
	}
	return cpus, nodes, nil
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

// SetMark writes homenode's mark into the document.
func (d *Document) SetMark(m Mark) {
	if el := d.markElement(); el != nil {
		m.fill(el)
		return
	}
	d.child(d.tree.Root(), "metadata").AddChild(m.element())
}

// NewMark is that of a guest which homenode takes over: shared, bound as it is.
func (d *Document) NewMark() (Mark, error) {
	cpus, nodes, err := d.Bound()
	return Mark{Class: workload.Shared, Importance: workload.DefaultImportance, SMT: workload.SMTPrefer,
		Emulator: guest.Share,
		CPUs:     cpus.String(), Nodes: nodes.String()}, err
}

// near is what it is to be near to for good.
func (m *Mark) near() []workload.Near {
	near, _ := workload.ParseNear(m.Near)
	return near
}

// goals is its latency goal, if it has one.
func (m *Mark) goals() []workload.Goal {
	g, err := workload.ParseGoal(m.SLO)
	if m.SLO == "" || err != nil {
		return nil
	}
	return []workload.Goal{g}
}

// floats reports whether the guest is placed cell by cell, and all its vCPUs float.
func (m *Mark) floats() bool {
	return m.Composed && m.Own == "" && m.Class == workload.Shared
}

// own is the vCPUs that have a CPU of their own, of a guest that is placed cell by cell.
func (m *Mark) own() guest.VCPUs {
	set, _ := topology.ParseSet[int](m.Own)
	return set
}
