package paper

import (
	"cmp"
	"embed"
	"fmt"
	"html/template"
	"math"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
	"github.com/homenode/homenode/ui/heat"
	"github.com/homenode/homenode/ui/view"
)

var (
	command = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile("`([^`]*)`") })
	figures = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`(\d) (%|(?:ns|ms|s|[GM]B/s|[KMGT]iB|MHz|CPUs?)\b)`)
	})
)

// functions are what the pages are written with. Text is escaped by the template; what is
// not printable was made so before (see fill).
var functions = template.FuncMap{
	"prose": prose, "share": share, "points": points,
	"bar":   func(x *float64) template.HTML { return bar(x, 0.8, 2) },
	"taken": func(x *float64) template.HTML { return bar(x, -1, 0.95) },
	"size":  func(kib int64) template.HTML { return prose(sizeOf(kib)) },
	"bytes": func(n int64) template.HTML { return prose(words.Bytes(n)) },
	"cpus":  func(x float64) string { return fmt.Sprintf("%.2f", x) },
	"busy": func(x *float64) string {
		if x == nil {
			return "–"
		}
		return fmt.Sprintf("%.1f", *x)
	},
	"time":  func(t time.Time) string { return t.UTC().Format("2 Jan 15:04") },
	"date":  date,
	"for":   words.Span,
	"count": func(n int, noun string) string { return words.Count(n, noun) },
	"name":  label,
	"dash":  func(s string) string { return cmp.Or(s, "–") },
	"home":  func(nodes, caches string) string { return words.Home(nodes, caches) },
	"shade": shade,
	"part": func(x float64) template.HTML {
		if x > 0 && x < 0.005 {
			return "under&nbsp;1&nbsp;%"
		}
		return share(&x)
	},
	"number": func(x float64) string {
		return strings.TrimSuffix(fmt.Sprintf("%.1f", x), ".0")
	},
}

//go:embed templates
var templates embed.FS

// templateOf returns a function that parses a template the first time that it is called: few commands write a page.
func templateOf(name string) func() *template.Template {
	return sync.OnceValue(func() *template.Template {
		return template.Must(template.New(name).Funcs(functions).ParseFS(templates, "templates/"+name))
	})
}

// fill is a page with what a template makes of a value, every text of which is printable.
func fill[T any](t *template.Template, title string, v T) (string, error) {
	var b strings.Builder
	if err := t.Execute(&b, view.PlainAll(v)); err != nil {
		return "", err
	}
	return heat.Page(title, b.String()), nil
}

// prose is text with its commands set as code, and no figure torn from its unit.
func prose(text string) template.HTML {
	text = figures().ReplaceAllString(view.Markup(text), "$1&nbsp;$2")
	return template.HTML(command().ReplaceAllString(text, "<code>$1</code>"))
}

func sizeOf(kib int64) string {
	if kib < 0 {
		return "–"
	}
	return words.Size(kib)
}

func percent(x float64) string { return fmt.Sprintf("%.0f %%", 100*x) }

// share is a share of 0 to 1 in percent.
func share(x *float64) template.HTML {
	if x == nil {
		return "–"
	}
	return prose(percent(*x))
}

// bar is a share with a bar, which says nothing that the figure does not say. What is below
// or above what is good has another colour.
func bar(x *float64, least, most float64) template.HTML {
	if x == nil {
		return "–"
	}
	low := ""
	if *x < least || *x > most {
		low = ` class="low"`
	}
	width := math.Round(1000*min(1, max(0, *x))) / 10
	return template.HTML(fmt.Sprintf(`<span class="bar" aria-hidden="true"><i%s style="width:%.4g%%"></i></span>`, low,
		width)) + share(x)
}

// points is a gain of a share, in points of percent.
func points(x *float64) template.HTML {
	if x == nil {
		return "–"
	}
	return template.HTML(fmt.Sprintf("%+.0f&nbsp;points", 100**x))
}

func date(t time.Time) string { return t.UTC().Format("2 January 2006 15:04 UTC") }

// label is the name of a workload and its ID, where that says more.
func label(name string, id workload.ID) string {
	if name == "" || strings.HasSuffix(string(id), name) {
		return string(id)
	}
	return name + " (" + string(id) + ")"
}

// shade is the class of a cell by how large its figure is among its like.
func shade(x, most float64) string {
	if x <= 0 || most <= 0 {
		return ""
	}
	return fmt.Sprintf("g%d", 1+min(3, int(4*x/most*0.999)))
}

// moveState is how a move ended, where it did not just end.
func moveState(m *plan.Move) string {
	if m.State == "done" {
		return ""
	}
	return m.State
}
