package tree

import (
	"bufio"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"
	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
	"golang.org/x/term"
)

// terminal is a pseudoterminal (pty(7)).
type terminal struct {
	program *os.File // that a program writes to
	user    *bufio.Reader
}

func newTerminal(t *testing.T) *terminal {
	user, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skipf("no pseudoterminals here: %v", err)
	}
	t.Cleanup(func() { user.Close() })
	fd := int(user.Fd())
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)
	}
	if err != nil {
		t.Skipf("no pseudoterminals here: %v", err)
	}
	program, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("no pseudoterminals here: %v", err)
	}
	t.Cleanup(func() { program.Close() })
	if _, err := term.MakeRaw(int(program.Fd())); err != nil { // lines end as they were written
		t.Fatal(err)
	}
	from, to, err := os.Pipe() // takes all that is written, while nobody reads
	if err != nil {
		t.Fatal(err)
	}
	if _, err := unix.FcntlInt(to.Fd(), unix.F_SETPIPE_SZ, 1<<20); err != nil {
		t.Logf("a pipe of the usual size: %v", err)
	}
	t.Cleanup(func() { from.Close() })
	go func() {
		defer to.Close()
		to.ReadFrom(user)
	}()
	return &terminal{program, bufio.NewReader(from)}
}

// shown is what was written since the last time.
func (x *terminal) shown(t testing.TB) string {
	const end = 0x04 // EOT, which no output has
	if _, err := x.program.Write([]byte{end}); err != nil {
		t.Fatal(err)
	}
	text, err := x.user.ReadString(end)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSuffix(text, string(rune(end)))
}

// On a terminal colours mark what one looks for, and add nothing but themselves; NO_COLOR,
// TERM=dumb and a pipe switch them off (https://no-color.org).
func TestColours(t *testing.T) {
	const warn, good, bold = "\x1b[33m", "\x1b[36m", "\x1b[1m"
	marked := map[string][]string{
		"status":         {warn + "7.60", warn + "32 MiB", warn + "51.4 %", warn + "moving 33 %", good + "at home", warn + "paused", warn + "!", warn + "would spread"},
		"stat":           {warn + "9216"},
		"stat-unread":    {warn + "not read:"},
		"explain":        {warn + "moving 33 %", bold + "/kubepods"},
		"history":        {warn + "!"},
		"doctor":         {good + "healthy"},
		"host-report":    {warn + "warning"},
		"plan":           {warn + "refused", bold + "node 2"},
		"probe-diff":     {warn + "worse"},
		"probe-show":     {"\x1b[48;5;"},
		"replay-differs": {warn + "1 decided otherwise"},
		"topology":       {good + "█"},
		"vm-capacity":    {warn + "0\x1b[m", bold + "4"},
		"plan-admit":     {warn + "refused"},
		"undo":           {good + "restored"},
	}
	s := newScreen(t, 4)
	s.files(t)
	for _, c := range screens {
		args := strings.Fields(c.args)
		s.tty = nil
		pipe, _, _ := s.show(t, 80, nil, args, c.stdin)
		if strings.Contains(pipe, "\x1b") {
			t.Errorf("%s: colours in a pipe", c.name)
		}
		s.tty = newTerminal(t)
		coloured, _, _ := s.show(t, 80, nil, args, c.stdin)
		if ansi.Strip(coloured) != pipe {
			t.Errorf("%s: on a terminal it is another text (-pipe +terminal):\n%s", c.name, cmp.Diff(pipe, ansi.Strip(coloured)))
		}
		for _, want := range marked[c.name] {
			if !strings.Contains(coloured, want) {
				t.Errorf("%s: no %q in\n%q", c.name, want, coloured)
			}
		}
		for name, value := range map[string]string{"NO_COLOR": "1", "TERM": "dumb"} {
			if plain, _, _ := s.show(t, 80, map[string]string{name: value}, args, c.stdin); plain != pipe {
				t.Errorf("%s: %s=%s: %q", c.name, name, value, plain)
			}
		}
	}
}
