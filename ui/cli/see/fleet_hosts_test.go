package see

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/homenode/homenode/api"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/ui/cli"
)

func TestAddresses(t *testing.T) {
	for text, want := range map[string]address{
		"web1": {ssh: "web1"}, "root@db-1.example.org:2222": {ssh: "root@db-1.example.org", port: "2222"}, "[fe80::1%eth0]:22": {ssh: "fe80::1%eth0", port: "22"},
		"10.0.0.1": {ssh: "10.0.0.1"}, "unix:": {}, "https://web1:4663": {url: "https://web1:4663"}, "http://127.0.0.1:1": {url: "http://127.0.0.1:1"}, "unix:/run/x": {socket: "/run/x"},
	} {
		want.name = text
		if got, err := parseAddress(text); err != nil || got != want {
			t.Errorf("%q: %+v %v", text, got, err)
		}
	}
	for _, text := range []string{"", "-oProxyCommand=touch /tmp/x", "a@-b", "-l@host", "a b", "a;b", "$(x)", "host:", "host:x", "host:123456", "a@b@c", "ssh://host", "http://web1:4663", "https://", "https://a@b", "https://a/b", "https://a?b", "http:x", "https:", "a\nb", "ä", "[::1", "::1",
		"unix:" + strings.Repeat("x", 200), strings.Repeat("x", 400)} {
		if got, err := parseAddress(text); err == nil {
			t.Errorf("%q is taken: %+v", text, got)
		}
	}
}

// Whatever a file of hosts holds: an error, or hosts of which none is an option of ssh.
func FuzzHosts(f *testing.F) {
	f.Add("web1\nroot@db:2222 # the database\n\n# more\nunix:/run/homenode.sock\n[::1]\n")
	f.Add("-oProxyCommand=x\n")
	f.Fuzz(func(t *testing.T, text string) {
		hosts, err := parseHosts(text)
		if err != nil {
			if strings.ContainsAny(cli.OneLine(err.Error()), "\n") {
				t.Error(err)
			}
			return
		}
		if len(hosts) == 0 || len(hosts) > maxHosts {
			t.Errorf("%d hosts", len(hosts))
		}
		for _, a := range hosts {
			_, host, named := strings.Cut(a.ssh, "@")
			if !named {
				host = a.ssh
			}
			if a.ssh+a.url == "" && !strings.HasPrefix(a.name, "unix:") || strings.HasPrefix(a.ssh, "-") || strings.HasPrefix(host, "-") ||
				strings.ContainsAny(a.ssh, " \t\n;|&$`'\"\\<>()*?~#!=") || strings.Trim(a.port, "0123456789") != "" {
				t.Errorf("%+v", a)
			}
		}
	})
}

// The best host is the same whatever order hosts come in, and answers go before silence.
func TestBestFirst(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var hosts []FitHost
		for i := range rapid.IntRange(1, 12).Draw(t, "hosts") {
			h := FitHost{Host: fmt.Sprint("h", i), Fits: rapid.Bool().Draw(t, "fits"), Moves: rapid.IntRange(0, 2).Draw(t, "moves"), Nodes: rapid.IntRange(1, 3).Draw(t, "nodes"), RoomCPUs: rapid.IntRange(0, 9).Draw(t, "room")}
			if rapid.IntRange(0, 4).Draw(t, "silent") == 0 {
				h = FitHost{Host: h.Host, Error: "no"}
			}
			hosts = append(hosts, h)
		}
		mixed := rapid.Permutation(hosts).Draw(t, "mixed")
		order := func(a, b FitHost) int { return better(&a, &b) }
		slices.SortStableFunc(hosts, order)
		slices.SortStableFunc(mixed, order)
		for i := range hosts {
			if hosts[i].Host != mixed[i].Host {
				t.Fatalf("%v and %v", hosts, mixed)
			}
			if i > 0 && (hosts[i-1].Error != "" && hosts[i].Error == "" || !hosts[i-1].Fits && hosts[i].Fits) {
				t.Fatalf("%v", hosts)
			}
		}
	})
}

func TestFitOf(t *testing.T) {
	h := FitOf("x", "1", &api.WhatIfAnswer{Workloads: []api.RepackAnswer{{Workload: "a", Decision: plan.Decision{Reasons: []words.Reason{words.Plain("No.")}}}}}, &api.Room{})
	if h.Fits || len(h.Workloads) != 1 || h.Workloads[0].Why != "No." {
		t.Errorf("%+v", h)
	}
}
