package paper

import (
	"cmp"
	"html/template"
	"slices"
	"sync"

	"github.com/homenode/homenode/api"
	"github.com/homenode/homenode/core/workload"
)

// Status is one look as a page; host is the name of the machine, "" when unknown.
func Status(s api.Status, host string) (string, error) {
	title := "NUMA status"
	if host != "" {
		title += ": " + host
	}
	v := statusView{Status: s, Title: title}
	v.Workloads = slices.Clone(s.Workloads)
	slices.SortStableFunc(v.Workloads, func(a, b api.Workload) int { return cmp.Or(last(&a)-last(&b), cmp.Compare(remote(&b), remote(&a))) })
	return fill(statusPage(), title, &v)
}

// remote is how many CPUs work on remote memory.
func remote(w *api.Workload) float64 {
	if w.Locality == nil {
		return -1
	}
	return w.CPUUse * (1 - *w.Locality)
}

// statusView is a status with what the page works out of it.
type statusView struct {
	api.Status
	Title string
}

// Local is the share of local accesses; nil unknown.
func (s statusView) Local() *float64 { now, _ := s.Locality(); return now }

// ByPlan is what it would be by plan.
func (s statusView) ByPlan() *float64 { _, after := s.Locality(); return after }

// Taken is the share of a node's memory that is in use and cannot be given back; nil unknown.
func (s statusView) Taken(n api.Node) *float64 {
	used, known := n.UsedKiB()
	if !known {
		return nil
	}
	x := float64(used) / float64(n.MemoryKiB)
	return &x
}

// OneNodeSays is the sentence for a host of one NUMA node.
func (s statusView) OneNodeSays() string { return s.Status.OneNodeSays().String() }

// Moving is the progress of a move under way, or nil.
func (s statusView) Moving(w api.Workload) *float64 {
	if m := w.Move; m != nil && m.State == "running" && m.Planned > 0 {
		x := float64(m.Moved) / float64(m.Planned)
		return &x
	}
	return nil
}

var statusPage = sync.OnceValue(func() *template.Template {
	return template.Must(template.New("status").Funcs(functions).Parse(`<h1>{{.Title}}</h1>
<p>{{if .Time.IsZero}}Not looked at yet{{else}}Looked at {{date .Time}}{{end}} by homenode {{.Version}}, {{if eq .Mode "none"}}without a daemon{{else}}in {{.Mode}} mode{{end}}{{if .Trial}}; {{.Trial.Line}}{{else if .Held}}; everything was undone, <code>homenode resume --all</code> goes on{{end}}.</p>
{{range .Problems}}<div class="verdict warning">{{prose .}}</div>
{{end}}{{if .OneNode}}<p>{{.OneNodeSays}}</p>
{{end}}<div class="tiles">
<div class="tile">at home<b>{{.AtHome}} of {{len .Workloads}}</b><small>{{count .Small "smaller workload"}} left alone</small></div>
<div class="tile">local accesses<b>{{share .Local}}</b><small>{{share .ByPlan}} by plan</small></div>
<div class="tile">least local<b>{{with .Worst}}{{share .Locality}}</b><small>{{name .Name .ID}}</small>{{else}}–</b><small>not known</small>{{end}}</div>
</div>
<h2>Nodes</h2>
<div class="wide"><table>
<tr><th>node</th><th>CPUs</th><th class="num">busy</th><th class="num">vCPUs booked</th><th class="num">memory</th><th class="num">free</th><th>memory taken</th></tr>
{{range .Nodes}}<tr><th>{{.ID}}</th><td class="name">{{dash .CPUs}}</td><td class="num">{{busy .CPUUse}}</td><td class="num">{{number .VCPUs}}</td><td class="num">{{size .MemoryKiB}}</td><td class="num">{{size .FreeKiB}}</td><td class="when">{{taken ($.Taken .)}}</td></tr>
{{end}}</table></div>
<h2>Workloads</h2>
{{if .Workloads}}<p>Those that lose most to remote memory first.</p>
<div class="wide"><table class="cards">
<tr><th>workload</th><th>class</th><th>home</th><th class="num">CPUs</th><th class="num">memory</th><th>local now</th><th class="num">by plan</th><th>state</th></tr>
{{range .Workloads}}<tr><td class="name">{{name .Name .ID}}</td><td data-is="class">{{.Class}}</td><td data-is="home">{{dash (home .Home .Caches)}}</td><td class="num" data-is="CPUs">{{cpus .CPUUse}}</td><td class="num" data-is="memory">{{size .MemoryKiB}}</td><td class="when" data-is="local now">{{bar .Locality}}</td><td class="num" data-is="by plan">{{share .LocalityExpected}}</td><td class="says"><strong>{{.State}}</strong>{{with $.Moving .}} {{taken .}}{{end}} {{prose .Why}}</td></tr>
{{end}}</table></div>
{{else}}<p>No workload is large enough to be placed.</p>
{{end}}{{if .Devices}}<h2>Devices</h2>
<div class="wide"><table class="cards">
<tr><th>device</th><th>node</th><th class="num">interrupts</th><th class="num">at home</th><th class="num">to set</th><th>state</th></tr>
{{range .Devices}}<tr><td class="name">{{.Name}}</td><td data-is="node">{{.Node}}</td><td class="num" data-is="interrupts">{{.Interrupts}}</td><td class="num" data-is="at home">{{.AtHome}}</td><td class="num" data-is="to set">{{.Steps}}</td><td class="says"><strong>{{.State}}</strong> {{prose .Why}}</td></tr>
{{end}}</table></div>
{{end}}{{if .Managers}}<h2>Other programs that place work</h2>
<div class="wide"><table class="cards">
<tr><th>program</th><th>does</th><th>left to it</th></tr>
{{range .Managers}}<tr><td class="name">{{.Name}}</td><td class="says">{{.Does}}</td><td class="says" data-is="left to it">{{dash .Owns}}</td></tr>
{{end}}</table></div>
{{end}}`))
})

// last puts batch work, which has no home, below online work.
func last(w *api.Workload) int {
	if w.Class == workload.Batch {
		return 1
	}
	return 0
}
