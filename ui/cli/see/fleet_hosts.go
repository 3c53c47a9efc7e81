package see

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"github.com/homenode/homenode/api"
	"github.com/homenode/homenode/core/topology/strict"
	"github.com/homenode/homenode/ui/cli"
)

const (
	maxHosts     = 10_000
	maxHostsFile = 1 << 20
	maxHostName  = 320 // a user, @, and a name of the DNS (RFC 1035)
)

// address is where a daemon is asked.
type address struct {
	name   string // as it was given
	socket string // of a daemon on this machine; "" asks over ssh
	ssh    string // destination: HOST or USER@HOST
	port   string // of its ssh; "" is ssh's own choice
	url    string // of a daemon that answers over TCP; "" is none
}

// A host begins with a letter, a digit or, of IPv6, a colon or a bracket: never with the - of
// an option. No part has what a shell or ssh would take for more than a name.
var sshHost = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^([A-Za-z0-9_][A-Za-z0-9._-]*@)?([A-Za-z0-9][A-Za-z0-9._-]*|\[[0-9A-Fa-f:]+(%[A-Za-z0-9._-]+)?\])(:([0-9]{1,5}))?$`)
})

// parseAddress reads a host: HOST, USER@HOST, either with :PORT, unix:SOCKET, or
// https://HOST:PORT.
func parseAddress(text string) (address, error) {
	if strings.HasPrefix(text, "https:") || strings.HasPrefix(text, "http:") {
		if len(text) > maxHostName {
			return address{}, fmt.Errorf("host %q: longer than any host", strict.Clip(text))
		}
		return address{name: text, url: text}, api.CheckURL(text)
	}
	if path, ok := strings.CutPrefix(text, "unix:"); ok {
		if strings.ContainsRune(path, 0) {
			return address{}, fmt.Errorf("%q: no path has a NUL", strict.Clip(text))
		}
		return address{name: text, socket: path}, cli.CheckSocket(path)
	}
	m := sshHost().FindStringSubmatch(text)
	if m == nil || len(text) > maxHostName {
		return address{},
			fmt.Errorf("host %q: want a name, USER@NAME, NAME:PORT, [IPV6], https://NAME:PORT or unix:SOCKET",
				strict.Clip(text))
	}
	return address{name: text, ssh: m[1] + strings.Trim(m[2], "[]"), port: m[5]}, nil
}

// parseHosts reads a file of hosts: one a line, with comments from # on.
func parseHosts(text string) ([]address, error) {
	var out []address
	n := 0
	for line := range strings.Lines(text) {
		n++
		line, _, _ = strings.Cut(line, "#")
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		a, err := parseAddress(line)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		out = append(out, a)
	}
	return out, checkHosts(out)
}

// checkHosts refuses none, too many, and one that is there twice.
func checkHosts(hosts []address) error {
	switch {
	case len(hosts) == 0:
		return errors.New("no host in it")
	case len(hosts) > maxHosts:
		return fmt.Errorf("%d hosts; want %d at most", len(hosts), maxHosts)
	}
	seen := map[string]bool{}
	for _, a := range hosts {
		if seen[a.name] {
			return fmt.Errorf("host %q is named twice", strict.Clip(a.name))
		}
		seen[a.name] = true
	}
	return nil
}

// hosts is those that a command line names, by itself, in a file, or in the file of hosts
// that is there by default.
func hostsOf(e *cli.Env, c *cobra.Command, args []string, file string) ([]address, error) {
	if len(args) > 0 {
		if file != "" {
			return nil, cli.Misused(c, "--hosts and hosts do not go together")
		}
		var out []address
		for _, text := range args {
			a, err := parseAddress(text)
			if err != nil {
				return nil, cli.Usagef("%w", err)
			}
			out = append(out, a)
		}
		if err := checkHosts(out); err != nil {
			return nil, cli.Usagef("%w", err)
		}
		return out, nil
	}
	if file == "" {
		if k := slices.IndexFunc(e.HostFiles,
			func(name string) bool { _, err := os.Stat(name); return !errors.Is(err, fs.ErrNotExist) }); k >= 0 {
			file = e.HostFiles[k]
		}
	}
	if file == "" {
		return nil, cli.Misused(c, "no hosts: name some, or write one a line into "+strings.Join(e.HostFiles, " or "))
	}
	text, err := cli.ReadInput(e, file, maxHostsFile)
	if err != nil {
		return nil, err
	}
	out, err := parseHosts(string(text))
	if err != nil {
		return nil, cli.Usagef("%s: %w", cli.InputName(file), err)
	}
	return out, nil
}
