package config

import (
	"strings"
	"testing"
)

// A grant is one mapping or a list of them; what is wrong is one line that says where it stands and what to
// write.
func TestGrants(t *testing.T) {
	for text, want := range map[string]string{
		"[]": "",
		"{allow: [class=dedicated], from: {namespaces: [prod-*]}}":                                                                               "class=dedicated from prod-* map[]",
		"{allow: [near, max-nodes, class=batch, importance], from: {namespaces: ['*']}}":                                                         "near max-nodes class=batch importance from * map[]",
		"{allow: [class=offline, tier=offline], from: {namespaces: [a]}}":                                                                        "class=batch tier=batch from a map[]",
		"[{allow: [memory], from: {namespaces: [a]}}, {allow: [near=required, tier=online-strict], from: {namespaces: [b, c], labels: {k: v}}}]": "memory from a map[]; near=required tier=online-strict from b c map[k:v]",

		"{allow: [class=dedicated]}":                              "!containers.annotations.from: no namespaces; want some, such as {namespaces: [prod-*]}: the author of a pod writes its labels",
		"{allow: [class=dedicated], from: {labels: {team: db}}}":  "!containers.annotations.from: no namespaces",
		"{allow: [], from: {namespaces: [a]}}":                    "!containers.annotations.allow: empty; want what these pods may ask for",
		"{allow: [everything], from: {namespaces: [a]}}":          `!containers.annotations.allow: "everything"; want some of class=shared, class=dedicated`,
		"{allow: [memory], from: {namespaces: ['[']}}":            `!containers.annotations.from.namespaces: bad pattern "["; want the name of a namespace or a pattern for names, such as prod-*`,
		"{allow: [memory], from: {namespaces: [prod/db]}}":        `!containers.annotations.from.namespaces: bad pattern "prod/db"`,
		"{allow: [memory], from: {namespaces: prod}}":             "!containers.annotations.from.namespaces: prod; want a list, such as [a, b]",
		"{allow: [memory], from: {namespace: [a]}}":               `!containers.annotations.from: unknown key "namespace"; did you mean namespaces?`,
		"{allow: [memory], from: {namespaces: [a], labels: [b]}}": "!containers.annotations.from.labels: [b]; want keys with text, such as {app: db}",
		"[{allow: [memory], from: [a]}]":                          "!containers.annotations[0].from: [a]; want keys: namespaces, labels",
		"{alow: [memory], from: {namespaces: [a]}}":               `!containers.annotations: unknown key "alow"; did you mean allow?`,
		"{allow: memory, from: {namespaces: [a]}}":                "!containers.annotations.allow: memory; want a list, such as [a, b]",
		"dedicated": "!containers.annotations: dedicated; want keys: allow, from",
		"[{allow: [memory], from: {namespaces: [a]}}, {allow: [importance]}]": "!containers.annotations[1].from: no namespaces",
	} {
		c, err := parse("mode: observe\ncontainers:\n  annotations: "+text, "f")
		if bad, is := strings.CutPrefix(want, "!"); is {
			if err == nil || !strings.HasPrefix(err.Error(), "f: line 3 column ") || !strings.Contains(err.Error(), bad) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%s: %v, want %s", text, err, bad)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		var all []string
		for _, g := range c.Settings().Grants {
			var allow []string
			for _, p := range g.Allow {
				allow = append(allow, string(p))
			}
			all = append(all, strings.Join(allow, " ")+" from "+strings.Join(g.Namespaces, " ")+" "+mapText(g.Labels))
		}
		if got := strings.Join(all, "; "); got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}

func mapText(m map[string]string) string {
	var out []string
	for k, v := range m {
		out = append(out, k+":"+v)
	}
	return "map[" + strings.Join(out, " ") + "]"
}

// A rule that labels alone choose gives nothing that takes from other workloads: the author of a pod writes its labels.
func TestLabelsAloneGiveNothing(t *testing.T) {
	for text, bad := range map[string]string{
		`match: "**", labels: {tier: prod}, class: dedicated`:                        "gives class dedicated to any pod",
		`match: "**", labels: {tier: prod}, importance: 90`:                          "gives importance 90 to any pod",
		`match: "*/db-*", labels: {tier: prod}, tier: online`:                        "gives tier online to any pod",
		`match: "/kubepods*/**", labels: {tier: prod}, bvt: 2`:                       "gives tier online-strict to any pod",
		`match: "**", labels: {tier: prod}, memory: 8GiB`:                            "gives memory to any pod",
		`match: "**", labels: {tier: prod}, cpus: 8`:                                 "gives 8 CPUs to any pod",
		`match: "**", labels: {tier: prod}, near: {device: eth0, policy: required}`:  "gives near with policy required to any pod",
		`match: "prod-*/**", labels: {tier: prod}, class: dedicated, importance: 90`: "",
		`match: "{prod,live}/**", labels: {tier: prod}, class: dedicated`:            "",
		`match: "**", labels: {tier: batch}, class: batch`:                           "",
		`match: "**", labels: {tier: low}, importance: 10, near: eth0`:               "",
		`match: "**", class: dedicated`:                                              "",
	} {
		_, err := parse("workloads: [{"+text+"}]", "f")
		if bad == "" && err != nil || bad != "" && (err == nil || !strings.Contains(err.Error(), bad) || !strings.HasPrefix(err.Error(), "f: line 1 column ") || !strings.Contains(err.Error(), "workloads[0].labels: ") || strings.Contains(err.Error(), "\n")) {
			t.Errorf("%s: %v, want %q", text, err, bad)
		}
	}
}
