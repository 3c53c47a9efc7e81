package see

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/homenode/homenode/api"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
	"github.com/homenode/homenode/ui/cli"
	"github.com/homenode/homenode/ui/view"
)

// asking is how many hosts are asked at once, for how long each, and what those are shown
// that answer over TCP.
type asking struct {
	atOnce               int
	within               time.Duration
	token, ca, cert, key string // files
	bearer               string
	tls                  *tls.Config
}

func (a *asking) flags(c *cobra.Command) {
	f := c.Flags()
	f.IntVar(&a.atOnce, "at-once", 64, "ask `N` hosts at once")
	f.DurationVar(&a.within, "timeout", 10*time.Second, "wait so long for each host, 100ms to 10m")
	f.StringVar(&a.token, "token", "", "`FILE` with the token for hosts that are asked over https")
	f.StringVar(&a.ca, "ca", "",
		"`FILE` with certificates that theirs are signed with; those of the system when not given")
	f.StringVar(&a.cert, "cert", "", "`FILE` with the certificate to show them")
	f.StringVar(&a.key, "key", "", "`FILE` with its key")
}

// check reads what the flags name.
func (a *asking) check(e *cli.Env) error {
	switch {
	case a.atOnce < 1 || a.atOnce > 1000:
		return cli.Usagef("--at-once %d: want 1 to 1000", a.atOnce)
	case a.within < 100*time.Millisecond || a.within > 10*time.Minute:
		return cli.Usagef("--timeout %v: want 100ms to 10m", a.within)
	case (a.cert == "") != (a.key == ""):
		return cli.Usagef("--cert and --key go together")
	}
	a.tls = &tls.Config{MinVersion: tls.VersionTLS12}
	if a.token != "" {
		text, err := cli.ReadInput(e, a.token, 4<<10)
		if err != nil {
			return err
		}
		if a.bearer = strings.TrimSpace(string(text)); a.bearer == "" ||
			strings.ContainsFunc(a.bearer, func(r rune) bool { return r <= ' ' || r > '~' }) {
			return cli.Usagef("--token %s: no token in it: one line without spaces", cli.InputName(a.token))
		}
	}
	if a.ca != "" {
		text, err := cli.ReadInput(e, a.ca, 1<<20)
		if err != nil {
			return err
		}
		if a.tls.RootCAs = x509.NewCertPool(); !a.tls.RootCAs.AppendCertsFromPEM(text) {
			return cli.Usagef("--ca %s: no certificate in it (PEM)", cli.InputName(a.ca))
		}
	}
	if a.cert == "" {
		return nil
	}
	cert, err := cli.ReadInput(e, a.cert, 1<<20)
	if err != nil {
		return err
	}
	key, err := cli.ReadInput(e, a.key, 1<<20)
	if err != nil {
		return err
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return cli.Usagef("--cert %s, --key %s: %w", cli.InputName(a.cert), cli.InputName(a.key), err)
	}
	a.tls.Certificates = []tls.Certificate{pair}
	return nil
}

// each asks all hosts, so many at once, and has the answers in their order.
func each[T any](ctx context.Context, a *asking, hosts []address, ask func(context.Context, address) T) []T {
	out := make([]T, len(hosts))
	turn := make(chan struct{}, a.atOnce)
	var all sync.WaitGroup
	for i := range hosts {
		turn <- struct{}{}
		all.Go(func() {
			defer func() { <-turn }()
			bounded, cancel := context.WithTimeout(ctx, a.within)
			defer cancel()
			out[i] = ask(bounded, hosts[i])
		})
	}
	all.Wait()
	return out
}

// why is an error of asking a host, in a line.
func (a *asking) why(ctx context.Context, err error) string {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return fmt.Sprintf("no answer within %s", words.Duration(a.within))
	}
	return words.Printable(cli.OneLine(err.Error()))
}

// FleetDocument is hosts side by side.
type FleetDocument struct {
	Schema   string      `json:"schema"`   // homenode-fleet/1
	Answered int         `json:"answered"` // hosts that answered
	Versions []string    `json:"versions"` // versions of homenode that were found, rising; several when they differ
	Hosts    []fleetHost `json:"hosts"`    // hosts, in the order that was asked for
}

// fleetHost is one host in short.
type fleetHost struct {
	Host string `json:"host"` // host as it was named
	// why it did not answer; absent when it did, and then the rest is there
	Error     string     `json:"error,omitempty"`
	Version   string     `json:"version"`   // version of its homenode
	Mode      string     `json:"mode"`      // mode of its daemon: observe, enforce, or none when no daemon runs
	Held      bool       `json:"held"`      // whether everything is held since undo --all
	Nodes     int        `json:"nodes"`     // NUMA nodes
	Workloads int        `json:"workloads"` // workloads large enough to be placed
	AtHome    int        `json:"at_home"`   // workloads that are at home
	Worst     *fleetWork `json:"worst"`     // workload of the least locality; null when none is known
	Fullest   *fleetFull `json:"fullest"`   // node with the largest share of its memory in use; null when unknown
	// node with the most idle CPUs, of equal ones that with the most free memory; null when unknown
	Room     *fleetRoom `json:"most_room"`
	Problems []string   `json:"problems"` // what its daemon could not read or do
}

type fleetWork struct {
	ID       workload.ID `json:"id"`       // ID of the workload
	Name     string      `json:"name"`     // name of the program, unit or guest
	Locality float64     `json:"locality"` // share of its memory accesses that are local, 0 to 1
}

type fleetFull struct {
	Node topology.NodeID `json:"node"` // node ID of the kernel
	Used float64         `json:"used"` // share of its memory that is in use and cannot be given back, 0 to 1
}

type fleetRoom struct {
	Node      topology.NodeID `json:"node"`       // node ID of the kernel
	CPUs      float64         `json:"idle_cpus"`  // CPUs that were not busy in the last period
	MemoryKiB int64           `json:"memory_kib"` // memory that is free or can be given back, KiB
}

// fleetOrders are what hosts may be sorted by: the one that wants a look first.
var fleetOrders = map[string]func(a, b *fleetHost) int{
	"name":     func(a, b *fleetHost) int { return strings.Compare(a.Host, b.Host) },
	"worst":    func(a, b *fleetHost) int { return cmp.Compare(a.locality(), b.locality()) },
	"full":     func(a, b *fleetHost) int { return cmp.Compare(b.used(), a.used()) },
	"room":     func(a, b *fleetHost) int { return cmp.Compare(b.idle(), a.idle()) },
	"problems": func(a, b *fleetHost) int { return cmp.Compare(b.wrong(), a.wrong()) },
	"version":  func(a, b *fleetHost) int { return strings.Compare(a.Version, b.Version) },
}

var fleetSortKeys = []string{"name", "worst", "full", "room", "problems", "version"}

func (h *fleetHost) locality() float64 {
	if h.Worst == nil {
		return 2
	}
	return h.Worst.Locality
}

func (h *fleetHost) used() float64 {
	if h.Fullest == nil {
		return -1
	}
	return h.Fullest.Used
}

func (h *fleetHost) idle() float64 {
	if h.Room == nil {
		return -1
	}
	return h.Room.CPUs
}

// wrong puts those that do not answer before all problems.
func (h *fleetHost) wrong() int {
	if h.Error != "" {
		return 1 << 30
	}
	return len(h.Problems)
}

const fleetHostsText = `HOST is what ssh takes: a name, USER@NAME, either with :PORT, or unix:SOCKET for a
daemon on this machine (unix: alone is the usual one), or https://NAME:PORT for a
daemon that listens (docs/page.md), with --token or --cert. Without any, hosts are read
from --hosts FILE, one a line, with comments from # on; without that from
~/.config/homenode/hosts or /etc/homenode-hosts.

ssh runs homenode on that host, which asks its own daemon. ssh must need no password
(BatchMode); ssh_config(5) has its settings, such as ControlMaster.`

func FleetCommand(e *cli.Env) *cobra.Command {
	var asJSON bool
	var file, sort, watch string
	var how asking
	c := &cobra.Command{
		Use:   "fleet [HOST...]",
		Short: "Show many hosts side by side, and where workloads would fit",
		Long: `Asks the daemons of many hosts and shows them side by side: mode, least local
workload, fullest node, free room.

` + fleetHostsText + `

Hosts are asked in parallel, at most --at-once, with --timeout each. A host that
does not answer is a row with the reason. Exit status 1: some did not answer.`,
		Example: `  homenode fleet web1 web2 root@db1:2222
  homenode fleet --hosts hosts.txt --sort worst
  homenode fleet --json | jq -r '.hosts[] | select(.error) | .host'
  homenode fleet fit --cpus 8 --memory 32GiB`,
		RunE: func(c *cobra.Command, args []string) error {
			every, err := fleetPeriod(c, watch)
			if err != nil {
				return err
			}
			if err := how.check(e); err != nil {
				return err
			}
			if sort != "" && fleetOrders[sort] == nil {
				return cli.Usagef("--sort %q: want %s", sort, strings.Join(fleetSortKeys, ", "))
			}
			hosts, err := hostsOf(e, c, args, file)
			if err != nil {
				return err
			}
			look := func() (FleetDocument, error) {
				d := fleetOf(each(cli.ContextOf(c), &how, hosts,
					func(ctx context.Context, a address) fleetHost { return lookAt(e, ctx, &how, a) }))
				if order := fleetOrders[sort]; order != nil {
					slices.SortStableFunc(d.Hosts, func(a, b fleetHost) int { return order(&a, &b) })
				}
				if cli.ContextOf(c).Err() != nil {
					return d, cli.Forbiddenf("interrupted")
				}
				return d, nil
			}
			if every > 0 {
				return watchFleet(c, e, every, look)
			}
			d, err := look()
			if err != nil {
				return err
			}
			if asJSON {
				err = cli.PrintJSON(e.Stdout, d)
			} else {
				writeFleet(e.Stdout, e.Paint(), &d)
			}
			if err == nil && d.Answered < len(d.Hosts) {
				return cli.ErrNo
			}
			return err
		},
	}
	f := c.Flags()
	f.StringVar(&file, "hosts", "", "hosts are in `FILE`, one a line (- is standard input)")
	f.StringVar(&sort, "sort", "", "order by `COLUMN`: "+strings.Join(fleetSortKeys, ", ")+
		"; as they were named when not given")
	f.StringVar(&watch, "watch", "", "show it again every `DURATION`, 10s when not given, until Ctrl-C")
	f.Lookup("watch").NoOptDefVal = "10s"
	f.BoolVar(&asJSON, "json", false, "print JSON (schema homenode-fleet/1)")
	how.flags(c)
	c.MarkFlagsMutuallyExclusive("json", "watch")
	c.AddCommand(fleetFitCommand(e))
	return c
}

// fleetPeriod is how often hosts are shown again; 0 is once.
func fleetPeriod(c *cobra.Command, watch string) (time.Duration, error) {
	if !c.Flags().Changed("watch") {
		return 0, nil
	}
	every, err := time.ParseDuration(watch)
	if err != nil || every < time.Second || every > time.Hour {
		return 0, cli.Usagef("--watch %q: want 1s to 1h, such as --watch=30s", watch)
	}
	return every, nil
}

// watchFleet shows hosts again and again until the user ends it.
func watchFleet(c *cobra.Command, e *cli.Env, every time.Duration, look func() (FleetDocument, error)) error {
	screen := view.NewScreen(e.Stdout, e.Getenv)
	defer screen.Close()
	for {
		d, err := look()
		if cli.ContextOf(c).Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		if err := screen.Show(e.Text(e.Paint(), func(w io.Writer, p view.Paint) { writeFleet(w, p, &d) })); err != nil {
			return err
		}
		select {
		case <-cli.ContextOf(c).Done():
			return nil
		case <-time.After(every):
		}
	}
}

func fleetOf(hosts []fleetHost) FleetDocument {
	d := FleetDocument{Schema: "homenode-fleet/1", Versions: []string{}, Hosts: hosts}
	for i := range hosts {
		if hosts[i].Error == "" {
			d.Answered++
			d.Versions = append(d.Versions, hosts[i].Version)
		}
	}
	slices.Sort(d.Versions)
	d.Versions = slices.Compact(d.Versions)
	return d
}

// fleetHost asks one host.
func lookAt(e *cli.Env, ctx context.Context, how *asking, a address) fleetHost {
	s, err := statusOf(e, ctx, how, a)
	if err != nil {
		return fleetHost{Host: a.name, Error: how.why(ctx, err), Problems: []string{}}
	}
	h := fleetHost{Host: a.name, Version: s.Version, Mode: s.Mode, Held: s.Held, Nodes: len(s.Nodes),
		Workloads: len(s.Workloads), AtHome: s.AtHome(), Problems: append([]string{}, s.Problems...)}
	if w := s.Worst(); w != nil {
		h.Worst = &fleetWork{w.ID, w.Name, *w.Locality}
	}
	for i := range s.Nodes {
		h.node(&s.Nodes[i])
	}
	return h
}

// node takes a node into account.
func (h *fleetHost) node(n *api.Node) {
	free := int64(0)
	if used, known := n.UsedKiB(); known {
		free = n.MemoryKiB - used
		if share := float64(used) / float64(n.MemoryKiB); h.Fullest == nil || share > h.Fullest.Used {
			h.Fullest = &fleetFull{n.ID, share}
		}
	}
	cpus, err := topology.ParseCPUSet(n.CPUs)
	if err != nil || cpus.Empty() || n.CPUUse == nil {
		return
	}
	room := fleetRoom{n.ID, max(0, float64(cpus.Len())-*n.CPUUse), free}
	if h.Room == nil || room.CPUs > h.Room.CPUs || (room.CPUs == h.Room.CPUs && room.MemoryKiB > h.Room.MemoryKiB) {
		h.Room = &room
	}
}

// statusOf is the status of a host.
func statusOf(e *cli.Env, ctx context.Context, how *asking, a address) (s api.Status, err error) {
	if a.ssh != "" {
		text, err := e.Remote(ctx, cli.Remote{To: a.ssh, Port: a.port, Within: how.within,
			Args: []string{"homenode", "status", "--json"}})
		return s, answered(text, err, &s.Schema, &s, "homenode-status/3", "homenode-status/2")
	}
	client, err := dialHost(e, ctx, how, a)
	if err != nil {
		return s, err
	}
	defer client.Close()
	return client.Status(ctx)
}

// dialHost reaches a daemon on this machine, or one that answers over TCP.
func dialHost(e *cli.Env, ctx context.Context, how *asking, a address) (*api.Client, error) {
	if a.url != "" {
		return api.Over(api.OverTCP{URL: a.url, Token: how.bearer, TLS: how.tls})
	}
	type dialed struct {
		client *api.Client
		err    error
	}
	got := make(chan dialed, 1)
	go func() {
		client, err := api.Dial(cmp.Or(a.socket, e.DefaultSocket))
		got <- dialed{client, err}
	}()
	select {
	case d := <-got:
		return d.client, d.err
	case <-ctx.Done():
		go func() {
			if d := <-got; d.err == nil {
				d.client.Close()
			}
		}()
		return nil, ctx.Err()
	}
}

// answered reads what the homenode of another host printed. An answer counts whatever the
// exit status is: 1 is one, too. The first of want is the form of this version; the others are
// read as well.
func answered(text []byte, failed error, schema *string, into any, want ...string) error {
	if len(bytes.TrimSpace(text)) == 0 || text[0] != '{' {
		if failed == nil {
			failed = errors.New("its homenode printed nothing")
		}
		return failed
	}
	if bytes.Count(text, []byte("{")) > api.MaxObjects {
		return errors.New("it answers more than any homenode would")
	}
	if err := json.Unmarshal(text, into); err != nil {
		return fmt.Errorf("its answer is no JSON of homenode: %w", err)
	}
	if !slices.Contains(want, *schema) {
		return fmt.Errorf("its homenode answers with %q, and this one reads %s: another version",
			words.Printable(*schema), want[0])
	}
	return nil
}

func writeFleet(w io.Writer, p view.Paint, d *FleetDocument) {
	*d = view.PlainAll(*d)
	t := view.NewTable("HOST", "MODE", "VERSION", ">WORKLOADS", ">AT HOME", ">LEAST LOCAL", "WHICH", ">FULLEST",
		"MOST ROOM", ">PROBLEMS").
		Names("HOST", "WHICH").Drops("VERSION", "WORKLOADS", "MODE", "FULLEST", "PROBLEMS")
	silent := 0
	for i := range d.Hosts {
		h := &d.Hosts[i]
		if h.Error != "" {
			silent++
			continue
		}
		mode := h.Mode
		if h.Held {
			mode += ", held"
		}
		local := "-"
		which := "-"
		full := "-"
		room := "-"
		problems := fmt.Sprint(len(h.Problems))
		if h.Worst != nil {
			local, which = cli.PaintLocal(p, &h.Worst.Locality), cmp.Or(h.Worst.Name, string(h.Worst.ID))
		}
		if h.Fullest != nil {
			full = fmt.Sprintf("node %d: %.0f %%", h.Fullest.Node, 100*h.Fullest.Used)
			if h.Fullest.Used > 0.95 {
				full = p.Warn(full)
			}
		}
		if h.Room != nil {
			room = fmt.Sprintf("node %d: %.1f CPUs, %s", h.Room.Node, h.Room.CPUs, words.Size(h.Room.MemoryKiB))
		}
		if len(h.Problems) > 0 {
			problems = p.Warn(problems)
		}
		t.Row(h.Host, mode, h.Version, fmt.Sprint(h.Workloads), fmt.Sprint(h.AtHome), local, which, full, room,
			problems)
	}
	if t.Len() > 0 {
		t.Print(w, p)
	}
	tellVersions(w, p, d.Versions)
	if silent > 0 {
		if t.Len() > 0 {
			fmt.Fprintln(w)
		}
		no := view.NewTable("NO ANSWER", "WHY")
		for i := range d.Hosts {
			if d.Hosts[i].Error != "" {
				no.Row(d.Hosts[i].Host, d.Hosts[i].Error)
			}
		}
		no.Print(w, p)
	}
}

func tellVersions(w io.Writer, p view.Paint, versions []string) {
	if len(versions) > 1 {
		fmt.Fprintf(w, "%s these hosts run different versions: %s\n", p.Warn("!"), words.List(versions))
	}
}
