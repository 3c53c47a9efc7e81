package tree

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/homenode/homenode/api"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/ui/cli"
	"github.com/homenode/homenode/ui/cli/see"
)

// remote is the other machines of a screen: all like this one, but for their versions, one
// that refuses and one that is old.
func (s *screen) remote(_ context.Context, r cli.Remote) ([]byte, error) {
	switch {
	case strings.HasPrefix(r.To, "down"):
		return nil, errors.New("ssh: connect to host " + r.To + " port 22: Connection refused")
	case strings.HasPrefix(r.To, "old"):
		return []byte(`{"schema": "homenode-status/1"}`), nil
	case r.Args[1] == "fleet":
		return s.fits(r.To)
	}
	status, err := s.Status(context.Background())
	if r.To == "web2" {
		status.Version, status.Problems = "1.3.0", []string{}
		status.Workloads = status.Workloads[:1]
	}
	for i := range status.Nodes {
		status.Nodes[i].MemoryKiB, status.Nodes[i].FreeKiB = 32<<20, int64(1+i)<<20
	}
	text, err2 := json.Marshal(status)
	return text, errors.Join(err, err2)
}

// fits is what a machine answers to fleet fit: web2 has no room, and on db something moves.
func (s *screen) fits(host string) ([]byte, error) {
	p := api.PlanPlacement{Workload: "new", Home: topology.Nodes(0), CPUs: topology.CPUs(0, 1, 2, 3)}
	a := api.RepackAnswer{Workload: "new", Place: &p, Reasons: []words.Reason{words.Plain("It fits now: nothing needs to move.")}}
	switch host {
	case "web2":
		a.Place, a.Reasons = nil, []words.Reason{words.Plain("It needs 4 CPUs, and 2 are left.")}
	case "root@db":
		a.Moves = []api.RepackMove{{Workload: "vm:web1", From: api.PlanPlacement{Home: topology.Nodes(0)}, To: api.PlanPlacement{Home: topology.Nodes(1)}}}
	}
	h := see.FitOf("unix:", "1.2.3", &api.WhatIfAnswer{Workloads: []api.RepackAnswer{a}}, &api.Room{Nodes: []api.NodeRoom{{Node: 0, CPUs: 6}, {Node: 1, CPUs: 8}}})
	return json.Marshal(see.FitDocument{Schema: "homenode-fleet-fit/1", Hosts: []see.FitHost{h}})
}

// 200 hosts, some of which never answer: no more than --at-once are asked at a time, each has
// a row in its place, and those that are silent end at their deadline.
func TestManyHosts(t *testing.T) {
	s := newScreen(t, 2)
	status, err := s.remote(context.Background(), cli.Remote{To: "web1", Args: []string{"homenode", "status"}})
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	now, most := 0, 0
	var args []string
	for i := range 200 {
		args = append(args, fmt.Sprintf("host%03d", i))
	}
	var out, errs bytes.Buffer
	e := &cli.Env{Stdout: &out, Stderr: &errs, Getenv: func(string) string { return "" }, Remote: func(ctx context.Context, r cli.Remote) ([]byte, error) {
		mu.Lock()
		now++
		most = max(most, now)
		mu.Unlock()
		defer func() { mu.Lock(); now--; mu.Unlock() }()
		if strings.HasSuffix(r.To, "7") { // hangs until it is given up
			<-ctx.Done()
			return nil, ctx.Err()
		}
		time.Sleep(time.Millisecond)
		return status, nil
	}}
	if code := Main(context.Background(), e, append([]string{"fleet", "--json", "--at-once", "50", "--timeout", "2s"}, args...)); code != 1 {
		t.Fatalf("exit status %d: %s", code, errs.String())
	}
	var d see.FleetDocument
	if err := json.Unmarshal(out.Bytes(), &d); err != nil {
		t.Fatal(err)
	}
	if most > 50 || len(d.Hosts) != 200 || d.Answered < 100 || d.Answered > 180 {
		t.Errorf("%d at once, %d hosts, %d answered", most, len(d.Hosts), d.Answered)
	}
	for i, h := range d.Hosts {
		if h.Host != args[i] || strings.HasSuffix(h.Host, "7") != (h.Error == "no answer within 2 s") && h.Error == "" {
			t.Errorf("row %d: %+v", i, h)
		}
	}
}

// What another host answers may be anything.
func TestHostileAnswers(t *testing.T) {
	s := newScreen(t, 1)
	for _, answer := range []string{"", "hello", "{}", `{"schema":"homenode-status/3"}`, `{"schema":"homenode-status/3","nodes":[{"cpus":"x","memory_kib":-5}],"workloads":[{}]}`, "{\x1b[31m", `{"schema":"\u001b[31m"}`,
		`{"schema":"homenode-status/3","version":"\u001b[31m<b>","problems":["x\ny"]}`, `{"schema":"homenode-fleet-fit/1","hosts":[]}`, `{"schema":"homenode-fleet-fit/1","hosts":[{},{}]}`, `{"schema":"homenode-fleet-fit/1","hosts":[{"fits":true,"workloads":[{"home":"0-99999"}]}]}`} {
		for _, args := range [][]string{{"fleet", "h"}, {"fleet", "h", "--json"}, {"fleet", "fit", "--cpus", "1", "h"}} {
			var out, errs bytes.Buffer
			e := &cli.Env{Stdout: &out, Stderr: &errs, Getenv: func(string) string { return "" }, Root: s.tree, Remote: func(context.Context, cli.Remote) ([]byte, error) { return []byte(answer), nil }}
			if code := Main(context.Background(), e, args); code > 1 {
				t.Errorf("%q %v: exit status %d: %s", answer, args, code, errs.String())
			}
			if strings.Contains(out.String()+errs.String(), "\x1b") {
				t.Errorf("%q: a control sequence in %q", answer, out.String())
			}
		}
	}
}

func TestHostsFrom(t *testing.T) {
	s := newScreen(t, 1)
	dir := t.TempDir()
	run := func(args ...string) (string, int) {
		var out, errs bytes.Buffer
		e := &cli.Env{Stdin: strings.NewReader("web1\n"), Stdout: &out, Stderr: &errs, Getenv: func(string) string { return "" }, Root: s.tree, Remote: s.remote, HostFiles: []string{filepath.Join(dir, "none"), filepath.Join(dir, "too")}}
		code := Main(context.Background(), e, args)
		return out.String() + errs.String(), code
	}
	for _, x := range []struct {
		args string
		code int
		says string
	}{
		{"fleet", 2, "no hosts: name some, or write one a line into "}, {"fleet --hosts -", 0, "web1"}, {"fleet --hosts - web2", 2, "do not go together"}, {"fleet web1 web1", 2, "named twice"},
		{"fleet --hosts nowhere", 2, "no such file"}, {"fleet web1 --sort fun", 2, "--sort \"fun\": want name"}, {"fleet web1 --at-once 0", 2, "--at-once 0: want 1 to 1000"},
		{"fleet web1 --timeout 1ms", 2, "--timeout 1ms"}, {"fleet web1 --watch=1ms", 2, "--watch"}, {"fleet fit web1", 2, "what is to fit?"}, {"fleet fit web1 --cpus -3", 2, "cpus"},
		{"fleet fit web1 --cpus 1 --memory much", 2, "memory"}, {"fleet fit web1 --cpus 1 --class best", 2, "class"}, {"fleet fit --spec - --hosts -", 2, "not both"}, {"fleet fit --spec - --cpus 2 web1", 2, "do not go together"},
		{"fleet web1 --cert nowhere", 2, "--cert and --key go together"}, {"fleet web1 --token nowhere", 2, "no such file"},
		{"fleet old", 1, "another version"}, {"fleet fit web2 --cpus 4", 1, "It fits on no host."},
	} {
		if out, code := run(strings.Fields(x.args)...); code != x.code || !strings.Contains(out, x.says) {
			t.Errorf("%s: exit status %d, want %d, with %q:\n%s", x.args, code, x.code, x.says, out)
		}
	}
}
