package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"time"
)

// monitor is the QEMU Machine Protocol of a guest (docs/interop/qmp-spec.rst of QEMU).
type monitor struct {
	conn net.Conn
	in   *json.Decoder
	out  *json.Encoder
}

func monitorAt(ctx context.Context, socket string) (*monitor, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", socket)
	if err != nil {
		return nil, fmt.Errorf("reach QEMU: %w", err)
	}
	m := &monitor{conn, json.NewDecoder(conn), json.NewEncoder(conn)}
	if _, err := m.ask("qmp_capabilities", nil); err != nil {
		conn.Close()
		return nil, err
	}
	return m, nil
}

func (m *monitor) close() { m.conn.Close() }

// ask sends a command and reads its answer past greeting and events.
func (m *monitor) ask(command string, arguments map[string]any) (json.RawMessage, error) {
	if arguments == nil {
		arguments = map[string]any{}
	}
	if err := m.out.Encode(map[string]any{"execute": command, "arguments": arguments}); err != nil {
		return nil, fmt.Errorf("QEMU: %s: %w", command, err)
	}
	for {
		var answer struct {
			Return json.RawMessage
			Error  *struct{ Desc string }
		}
		err := m.in.Decode(&answer)
		switch {
		case err != nil:
			return nil, fmt.Errorf("QEMU: %s: %w", command, err)
		case answer.Error != nil:
			return nil, fmt.Errorf("QEMU: %s: %s", command, answer.Error.Desc)
		case answer.Return != nil:
			return answer.Return, nil
		}
	}
}

// say is the answer to a line of the monitor for people.
func (m *monitor) say(line string) (text string, err error) {
	b, err := m.ask("human-monitor-command", map[string]any{"command-line": line})
	if err == nil {
		err = json.Unmarshal(b, &text)
	}
	return text, err
}

// lookLimit bounds what a QEMU that does not answer either may take.
const lookLimit = 20 * time.Second

var instruction = regexp.MustCompile(`RIP=([0-9a-f]+)`)

// look tells what the CPUs of a guest do that is not heard any more, and writes their
// registers, read twice, into its folder.
func look(socket, folder string) string {
	ctx, cancel := context.WithTimeout(context.Background(), lookLimit)
	defer cancel()
	m, err := monitorAt(ctx, socket)
	if err != nil {
		return err.Error()
	}
	defer m.close()
	m.conn.SetDeadline(time.Now().Add(lookLimit))
	var all string
	var at [2][]string
	for i := range at {
		for _, line := range []string{"info status", "info registers -a", "info pic"} {
			text, err := m.say(line)
			if err != nil {
				return err.Error()
			}
			all += "(qemu) " + line + "\n" + text
			for _, m := range instruction.FindAllStringSubmatch(text, -1) {
				at[i] = append(at[i], m[1])
			}
		}
		if i == 0 {
			time.Sleep(3 * time.Second)
		}
	}
	name := filepath.Join(folder, "stuck")
	if err := os.WriteFile(name, []byte(all), 0o644); err != nil {
		return err.Error()
	}
	still := 0
	for i, where := range at[0] {
		if i < len(at[1]) && at[1][i] == where {
			still++
		}
	}
	slices.Sort(at[1])
	return fmt.Sprintf("%d of its %d CPUs are where they were 3 s before, at %q; see %s", still, len(at[0]),
		slices.Compact(at[1]), name)
}
