package incus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"

	"github.com/homenode/homenode/core/words"
)

const (
	// mostAnswer bounds an answer, bytes: an instance with its state is some 5 KiB.
	mostAnswer = 64 << 20
	// mostInstances bounds the instances of an answer.
	mostInstances = 10_000
)

// wireInstance is an instance in an answer.
type wireInstance struct {
	Name     string                       `json:"name"`
	Type     string                       `json:"type"` // container, virtual-machine
	Project  string                       `json:"project"`
	Location string                       `json:"location"` // member of the cluster; "" or none without one
	Config   map[string]string            `json:"expanded_config"`
	Devices  map[string]map[string]string `json:"expanded_devices"`
	State    *struct {
		Status string `json:"status"`
		PID    int    `json:"pid"`
	} `json:"state"`

	limited limited
}

// wireProject is a project in an answer.
type wireProject struct {
	Name   string            `json:"name"`
	Config map[string]string `json:"config"`
}

// limited says for which sizes of the instances of a project Incus asks only its users.
type limited struct{ cpus, memory bool }

// limitedIn reads a project. Users of one without restrictions are root of the host in all but name (Incus,
// "Restricted projects"); in a restricted one the administrator may have limited all instances together.
func limitedIn(p *wireProject) limited {
	if p.Config["restricted"] != "true" {
		return limited{}
	}
	return limited{cpus: p.Config["limits.cpu"] == "", memory: p.Config["limits.memory"] == ""}
}

// get asks one server and reads the metadata of its answer.
func get(ctx context.Context, socket, path string, into any) error {
	transport := &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "unix", socket)
		},
		DisableKeepAlives:      true,
		MaxResponseHeaderBytes: 64 << 10,
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://incus"+path, nil)
	if err != nil {
		return err
	}
	answer, err := transport.RoundTrip(req)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	body := &io.LimitedReader{R: answer.Body, N: mostAnswer}
	var wire struct {
		Type     string          `json:"type"`
		Error    string          `json:"error"`
		Metadata json.RawMessage `json:"metadata"`
	}
	err = json.NewDecoder(body).Decode(&wire)
	switch {
	case err != nil && body.N <= 0:
		return fmt.Errorf("the answer to %s is larger than %d MiB", path, mostAnswer>>20)
	case err != nil && ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		return fmt.Errorf("the answer to %s is no JSON of Incus (status %d)", path, answer.StatusCode)
	case wire.Type == "error" || answer.StatusCode != http.StatusOK:
		return fmt.Errorf("%s: status %d: %s", path, answer.StatusCode, words.Clip(wire.Error, 200))
	}
	if err := json.Unmarshal(wire.Metadata, into); err != nil {
		return fmt.Errorf("the answer to %s is not understood: %s", path, words.Clip(err.Error(), 200))
	}
	return nil
}

// server is the server itself in an answer.
type server struct {
	Environment struct {
		Name      string `json:"server_name"`
		Clustered bool   `json:"server_clustered"`
	} `json:"environment"`
}

// instancesOf asks for all instances of a server that run on this host.
func instancesOf(ctx context.Context, socket string) ([]wireInstance, error) {
	var s server
	if err := get(ctx, socket, "/1.0", &s); err != nil {
		return nil, err
	}
	var all []wireInstance
	if err := get(ctx, socket, "/1.0/instances?recursion=2&all-projects=true", &all); err != nil {
		return nil, err
	}
	if len(all) > mostInstances {
		return nil, errors.New("more than 10000 instances")
	}
	var projects []wireProject
	if err := get(ctx, socket, "/1.0/projects?recursion=1", &projects); err != nil {
		return nil, err
	}
	by := map[string]limited{"": {}, "default": {}}
	for i := range projects {
		by[projects[i].Name] = limitedIn(&projects[i])
	}
	here := all[:0]
	for i := range all {
		elsewhere := s.Environment.Clustered && all[i].Location != s.Environment.Name
		known := false
		if all[i].limited, known = by[all[i].Project]; !known { // it is as new as the instance
			all[i].limited = limited{cpus: true, memory: true}
		}
		if all[i].State != nil && !elsewhere {
			here = append(here, all[i])
		}
	}
	return here, nil
}
