package proxmox

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
)

// askWithin bounds one conversation. QEMU answers these within a millisecond; Proxmox' own
// clients wait for seconds while we hold the socket.
const askWithin = 500 * time.Millisecond

// mostAnswer bounds what is read of a QEMU, which a guest may have taken over: 4096 vCPUs
// take 700 KiB.
const mostAnswer = 4 << 20

// errBusy is that the socket was opened and QEMU did not greet: it talks to another client.
var errBusy = errors.New("it is busy with another client, Proxmox' own most likely")

// run is what a QEMU says of itself.
type run struct {
	vcpus   map[int]int  // threads by vCPU
	memory  topology.KiB // plugged in, 0 when it is not told
	binding string       // of its memory to nodes of the host, in words; "" for none
}

// ask has a QEMU tell by QMP.
func ask(ctx context.Context, socket string) (r run, err error) {
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", socket)
	if err != nil {
		return r, err
	}
	defer conn.Close()
	deadline, _ := ctx.Deadline()
	if err := conn.SetDeadline(deadline); err != nil {
		return r, err
	}
	return conversation(conn)
}

// conversation asks all that is asked of a QEMU.
func conversation(conn io.ReadWriter) (r run, err error) {
	q := qmp{conn, json.NewDecoder(bufio.NewReader(io.LimitReader(conn, mostAnswer)))}
	if err := q.greeting(); err != nil {
		return r, err
	}
	if err := q.call("qmp_capabilities", nil); err != nil {
		return r, err
	}
	var cpus []struct {
		Index  *int `json:"cpu-index"`
		Thread int  `json:"thread-id"`
	}
	if err := q.call("query-cpus-fast", &cpus); err != nil {
		return r, err
	}
	r.vcpus = make(map[int]int, len(cpus))
	for _, c := range cpus {
		if c.Index == nil || *c.Index < 0 || *c.Index >= mostVCPUs || c.Thread <= 0 {
			return r, fmt.Errorf("query-cpus-fast: a vCPU without a number or a thread")
		}
		if _, twice := r.vcpus[*c.Index]; twice {
			return r, fmt.Errorf("query-cpus-fast: vCPU %d twice", *c.Index)
		}
		r.vcpus[*c.Index] = c.Thread
	}
	if len(r.vcpus) == 0 {
		return r, errors.New("query-cpus-fast: no vCPU")
	}
	var size struct {
		Base    uint64 `json:"base-memory"`
		Plugged uint64 `json:"plugged-memory"`
	}
	if err := q.call("query-memory-size-summary", &size); err != nil { // QEMU 2.11
		return r, err
	}
	if size.Base < 1<<60 && size.Plugged < 1<<60 {
		r.memory = topology.KiB((size.Base + size.Plugged) >> 10)
	}
	var backends []struct {
		Nodes  []int  `json:"host-nodes"`
		Policy string `json:"policy"`
	}
	if err := q.call("query-memdev", &backends); err != nil {
		return r, err
	}
	for _, b := range backends {
		if b.Policy != "" && b.Policy != "default" && r.binding == "" {
			list := fmt.Sprint(b.Nodes)
			r.binding = words.Printable(fmt.Sprintf("memory policy %.32s, nodes %.64s", b.Policy,
				strings.Trim(list, "[]")))
		}
	}
	return r, nil
}

// qmp is one conversation.
type qmp struct {
	w io.Writer
	d *json.Decoder
}

// answer is any message of a QEMU.
type answer struct {
	QMP    json.RawMessage `json:"QMP"`
	Event  string          `json:"event"`
	ID     string          `json:"id"`
	Return json.RawMessage `json:"return"`
	Error  *struct {
		Description string `json:"desc"`
	} `json:"error"`
}

func (q *qmp) greeting() error {
	var a answer
	switch err := q.d.Decode(&a); {
	case isTimeout(err):
		return errBusy
	case err != nil:
		return fmt.Errorf("greeting: %w", readable(err))
	case a.QMP == nil:
		return errors.New("greeting: not QMP")
	}
	return nil
}

// call asks one thing. Events that come in between are let pass.
func (q *qmp) call(command string, into any) error {
	if _, err := fmt.Fprintf(q.w, "{\"execute\":%q,\"id\":%q}\n", command, command); err != nil {
		return fmt.Errorf("%s: %w", command, readable(err))
	}
	for {
		var a answer
		if err := q.d.Decode(&a); err != nil {
			return fmt.Errorf("%s: %w", command, readable(err))
		}
		switch {
		case a.Event != "":
		case a.ID != command:
			return fmt.Errorf("%s: it answers what was not asked", command)
		case a.Error != nil:
			return fmt.Errorf("%s: %s", command,
				words.Printable(a.Error.Description[:min(len(a.Error.Description), 200)]))
		case a.Return == nil:
			return fmt.Errorf("%s: neither an answer nor an error", command)
		case into == nil:
			return nil
		default:
			if err := json.Unmarshal(a.Return, into); err != nil {
				return fmt.Errorf("%s: %w", command, readable(err))
			}
			return nil
		}
	}
}

func isTimeout(err error) bool {
	var e net.Error
	return errors.As(err, &e) && e.Timeout()
}

// readable is an error of one line, which names no more of what was read than what is wrong.
func readable(err error) error {
	switch {
	case isTimeout(err):
		return fmt.Errorf("no answer within %s", words.Duration(askWithin))
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return errors.New("it ended in the middle, or was too long")
	}
	text := err.Error()
	return errors.New(words.Printable(text[:min(len(text), 200)]))
}
