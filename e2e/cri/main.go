// Command cri speaks the Container Runtime Interface for the tests in a guest, as the
// kubelet does. It is a module of its own: nothing else of homenode needs gRPC.
//
//	cri SOCKET
//
// Each line of standard input is a call, and each line of standard output its answer, in
// the order in which they come back:
//
//	{"id": 1, "method": "StartContainer", "request": {"containerId": "…"}}
//	{"id": 1, "ms": 812, "response": {}}
//	{"id": 2, "ms": 3, "error": "…"}
//
// Requests and responses are messages of k8s.io/cri-api as JSON. Calls run beside each
// other. No deadline is set here: how long the runtime takes is what tests look at.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	_ "k8s.io/cri-api/pkg/apis/runtime/v1" // its messages
)

type call struct {
	ID      int             `json:"id"`
	Method  string          `json:"method"`
	Request json.RawMessage `json:"request"`
}

type answer struct {
	ID       int             `json:"id"`
	MS       int64           `json:"ms"`
	Response json.RawMessage `json:"response,omitempty"`
	Error    string          `json:"error,omitempty"`
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: cri SOCKET")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "cri:", err)
		os.Exit(1)
	}
}

func run(socket string, in io.Reader, out io.Writer) error {
	conn, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return fmt.Errorf("reach %s: %w", socket, err)
	}
	defer conn.Close()
	var mu sync.Mutex
	say := json.NewEncoder(out)
	var calls sync.WaitGroup
	defer calls.Wait()
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var c call
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			return fmt.Errorf("call %q: %w", lines.Text(), err)
		}
		calls.Go(func() {
			start := time.Now()
			a := answer{ID: c.ID}
			response, err := invoke(conn, c)
			if a.Response, a.MS = response, time.Since(start).Milliseconds(); err != nil {
				a.Error = err.Error()
			}
			mu.Lock()
			defer mu.Unlock()
			say.Encode(a)
		})
	}
	return lines.Err()
}

func invoke(conn *grpc.ClientConn, c call) (json.RawMessage, error) {
	request, err := message(c.Method + "Request")
	if err != nil {
		return nil, err
	}
	response, err := message(c.Method + "Response")
	if err != nil {
		return nil, err
	}
	if err := protojson.Unmarshal(c.Request, request); err != nil {
		return nil, fmt.Errorf("%s: %w", c.Method, err)
	}
	// A runtime that was just started again is waited for.
	if err := conn.Invoke(context.Background(), "/runtime.v1.RuntimeService/"+c.Method, request, response,
		grpc.WaitForReady(true)); err != nil {
		return nil, fmt.Errorf("%s: %w", c.Method, err)
	}
	return protojson.Marshal(response)
}

func message(name string) (proto.Message, error) {
	kind, err := protoregistry.GlobalTypes.FindMessageByName(protoreflect.FullName("runtime.v1." + name))
	if err != nil {
		return nil, fmt.Errorf("no message %s: %w", name, err)
	}
	return kind.New().Interface(), nil
}
