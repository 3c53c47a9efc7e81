package domain

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/beevik/etree"
)

// maxText bounds a document. libvirt's own limit for a string on the wire is
// 4 MiB (VIR_DOMAIN… REMOTE_STRING_MAX); a guest with a hundred disks takes 60 KiB.
const maxText = 4 << 20

// maxDepth bounds nesting; libvirt's schema nests 12 deep, metadata is free.
const maxDepth = 256

// Document is the XML of one guest.
type Document struct {
	text  []byte
	tree  *etree.Document
	spans map[*etree.Element]*span
}

// span is where an element stands in the text.
type span struct {
	// of the start tag, its inside, the end tag; body == tail == end when it closes itself
	start, body, tail, end int
	// where what stands before it begins; where its last child ends, body without any
	prev, last int
	tag        string           // how etree writes its start tag, as read
	text       string           // its own character data and comments, as read
	kids       []*etree.Element // as read
}

// Parse reads a document. Errors are one line.
func Parse(text []byte) (*Document, error) {
	if len(text) > maxText {
		return nil, fmt.Errorf("domain XML: larger than %d bytes", maxText)
	}
	d := &Document{text: text, tree: etree.NewDocument(), spans: map[*etree.Element]*span{}}
	d.tree.ReadSettings = etree.ReadSettings{PreserveCData: true, PreserveDuplicateAttrs: true, MaxDepth: maxDepth}
	d.tree.WriteSettings = etree.WriteSettings{AttrSingleQuote: true}
	spans, err := findSpans(text)
	if err == nil {
		err = d.tree.ReadFromBytes(text)
	}
	if err != nil {
		return nil, fmt.Errorf("domain XML: %s", strings.Join(strings.Fields(err.Error()), " "))
	}
	root := d.tree.Root()
	if root == nil || root.FullTag() != "domain" {
		return nil, errors.New("domain XML: the root is not <domain>")
	}
	if !d.take(root, &spans) || len(spans) != 0 {
		return nil, errors.New("domain XML: more than one root")
	}
	return d, nil
}

// findSpans is the spans of all elements in the order of their start tags. It
// also finds what is not well-formed, which etree alone does not.
func findSpans(text []byte) ([]*span, error) {
	dec := xml.NewDecoder(bytes.NewReader(text))
	dec.CharsetReader = func(charset string, _ io.Reader) (io.Reader, error) {
		return nil, fmt.Errorf("encoding %q; want UTF-8", charset)
	}
	var all, open []*span
	for {
		at := int(dec.InputOffset())
		token, err := dec.Token()
		if err == io.EOF {
			return all, nil
		}
		if err != nil {
			return nil, err
		}
		end := int(dec.InputOffset())
		switch t := token.(type) {
		case xml.StartElement:
			s := &span{start: at, body: end, last: end}
			if len(open) > 0 {
				s.prev = open[len(open)-1].last
			}
			all, open = append(all, s), append(open, s)
		case xml.EndElement:
			s := open[len(open)-1] // Token refuses an end without a start
			open = open[:len(open)-1]
			s.tail, s.end = at, end
			if len(open) > 0 {
				open[len(open)-1].last = end
			}
		case xml.CharData:
			if len(open) == 0 && len(bytes.TrimSpace(t)) > 0 {
				return nil, errors.New("text outside of <domain>")
			}
		}
	}
}

// take gives the elements of a tree their spans.
func (d *Document) take(el *etree.Element, spans *[]*span) bool {
	if len(*spans) == 0 {
		return false
	}
	s := (*spans)[0]
	*spans = (*spans)[1:]
	d.spans[el] = s
	s.tag = d.startTag(el)
	s.text = ownText(el)
	s.kids = el.ChildElements()
	for _, child := range s.kids {
		if !d.take(child, spans) {
			return false
		}
	}
	return true
}

// write is an element as etree writes it.
func (d *Document) write(el *etree.Element) string {
	var b strings.Builder
	el.WriteTo(&b, &d.tree.WriteSettings)
	return b.String()
}

// unchanged reports whether an element and all inside it are as they were read.
func (d *Document) unchanged(el *etree.Element) bool {
	s := d.spans[el]
	return s != nil && d.startTag(el) == s.tag && ownText(el) == s.text && slices.Equal(el.ChildElements(), s.kids) &&
		!slices.ContainsFunc(s.kids, func(kid *etree.Element) bool { return !d.unchanged(kid) })
}

// startTag is the start tag of an element, without the slash of one that closes itself.
func (d *Document) startTag(el *etree.Element) string { return startTag(el, d.tree.WriteSettings) }

func startTag(el *etree.Element, settings etree.WriteSettings) string {
	bare := etree.NewElement(el.FullTag())
	bare.Attr = slices.Clone(el.Attr)
	var b strings.Builder
	bare.WriteTo(&b, &settings)
	return strings.TrimSuffix(b.String(), "/>") + ">"
}

// ownText is the character data of an element that is not blank, and its comments.
func ownText(el *etree.Element) string {
	var b strings.Builder
	for _, token := range el.Child {
		switch t := token.(type) {
		case *etree.CharData:
			if !t.IsWhitespace() {
				b.WriteString(t.Data + "\x00")
			}
		case *etree.Comment:
			b.WriteString("!" + t.Data + "\x00")
		case *etree.ProcInst:
			b.WriteString("?" + t.Target + t.Inst + "\x00")
		}
	}
	return b.String()
}

// Bytes is the text: as it was read where nothing was changed.
func (d *Document) Bytes() []byte {
	var b bytes.Buffer
	root := d.tree.Root()
	s := d.spans[root]
	b.Write(d.text[:s.start])
	d.emit(&b, root, "\n")
	b.Write(d.text[s.end:])
	return b.Bytes()
}

func (d *Document) String() string { return string(d.Bytes()) }

// emit writes one element; lead is the line end and indent before it, "" where
// everything is on one line.
func (d *Document) emit(b *bytes.Buffer, el *etree.Element, lead string) {
	s := d.spans[el]
	switch {
	case s == nil && lead == "":
		b.WriteString(d.write(el))
		return
	case s == nil:
		b.WriteString(strings.ReplaceAll(d.indented(el), "\n", lead))
		return
	case d.unchanged(el):
		b.Write(d.text[s.start:s.end])
		return
	}
	closesItself := s.body == s.end
	tag := d.startTag(el)
	if tag == s.tag {
		tag = string(d.text[s.start:s.body])
		if closesItself {
			tag = strings.TrimRight(strings.TrimSuffix(tag, "/>"), " \t\r\n") + ">"
		}
	} else if was := d.text[s.start:s.body]; bytes.Contains(was, []byte(`"`)) && !bytes.Contains(was, []byte("'")) {
		tag = startTag(el, etree.WriteSettings{}) // in the quotes that it had
	}
	inside := d.inside(el, s, lead)
	switch {
	case inside == "":
		b.WriteString(strings.TrimSuffix(tag, ">") + "/>")
	case closesItself:
		b.WriteString(tag + inside + "</" + el.FullTag() + ">")
	default:
		b.WriteString(tag + inside)
		b.Write(d.text[s.tail:s.end])
	}
}

// inside is what stands between the tags of a changed element: its text or its
// elements; libvirt has none with both.
func (d *Document) inside(el *etree.Element, s *span, lead string) string {
	var b bytes.Buffer
	kids := el.ChildElements()
	switch {
	case len(kids) > 0:
		d.children(&b, kids, s, lead)
	case ownText(el) == s.text && s.last == s.body:
		b.Write(d.text[s.body:s.tail])
	case el.Text() != "":
		etree.NewText(el.Text()).WriteTo(&b, &d.tree.WriteSettings)
	}
	return b.String()
}

// children writes elements, each with what stood before it; a new one goes on a
// line of its own.
func (d *Document) children(b *bytes.Buffer, kids []*etree.Element, s *span, lead string) {
	inner := d.lead(kids, s, lead)
	for _, kid := range kids {
		if k := d.spans[kid]; k != nil {
			b.Write(d.text[k.prev:k.start])
		} else {
			b.WriteString(inner)
		}
		d.emit(b, kid, inner)
	}
	if tail := d.text[s.last:s.tail]; len(tail) > 0 {
		b.Write(tail)
	} else if inner != "" {
		b.WriteString(lead)
	}
}

// lead is the line end and indent before the children of a changed element: as
// before the first that has one, none where the element has all on one line.
func (d *Document) lead(kids []*etree.Element, s *span, outer string) string {
	for _, kid := range kids {
		if k := d.spans[kid]; k != nil {
			gap := string(d.text[k.prev:k.start])
			if i := strings.LastIndexByte(gap, '\n'); i >= 0 {
				return gap[len(strings.TrimSuffix(gap[:i], "\r")):]
			}
		}
	}
	if outer == "" || (s.last > s.body && !bytes.Contains(d.text[s.body:s.tail], []byte("\n"))) {
		return ""
	}
	return outer + "  "
}

// indented is a new element, two blanks a level.
func (d *Document) indented(el *etree.Element) string {
	doc := etree.NewDocumentWithRoot(el.Copy())
	doc.WriteSettings = d.tree.WriteSettings
	doc.IndentWithSettings(&etree.IndentSettings{Spaces: 2, SuppressTrailingWhitespace: true})
	text, _ := doc.WriteToString() // a string takes every write
	return text
}
