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
	here := all[:0]
	for i := range all {
		elsewhere := s.Environment.Clustered && all[i].Location != s.Environment.Name
		if all[i].State != nil && !elsewhere {
			here = append(here, all[i])
		}
	}
	return here, nil
}
