package peers

import (
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/homenode/homenode/core/workload"
)

// accept returns a connection to a listener of this process by its two ends.
func accept(t *testing.T, network, from, to string) (client, server net.Conn) {
	t.Helper()
	l, err := net.Listen(network, to)
	if err != nil {
		t.Skip(err)
	}
	defer l.Close()
	d := net.Dialer{Timeout: 10 * time.Second}
	if from != "" {
		d.LocalAddr = &net.TCPAddr{IP: net.ParseIP(from)}
	}
	client, err = d.Dial(network, l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	server, err = l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Close() })
	return client, server
}

func TestConnection(t *testing.T) {
	f := New()
	if err := f.Check(); err != nil {
		t.Skip(err)
	}
	for _, tt := range []struct{ name, network, from, to string }{
		{"IPv4", "tcp4", "", "127.0.0.1:0"},
		{"another address of this machine", "tcp4", "127.7.8.9", "127.0.0.1:0"},
		{"IPv6", "tcp6", "", "[::1]:0"},
		{"IPv4 at a socket of both", "tcp", "127.0.0.1", "[::]:0"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			client, server := accept(t, tt.network, tt.from, tt.to)
			if uid, owner, ok := f.Connection(server); !ok || uid != os.Getuid() || owner != workload.UserOwner(os.Getuid()) {
				t.Errorf("peer: UID %d, owner %q, %t", uid, owner, ok)
			}
			// A socket that its process has closed is nobody's: the kernel tells of UID 0.
			client.Close()
			if uid, _, ok := f.Connection(server); ok {
				t.Errorf("closed peer: UID %d", uid)
			}
		})
	}
	if _, _, ok := f.Connection(&net.UnixConn{}); ok {
		t.Error("a unix socket has a peer over TCP")
	}
}

// The kernel answers with the listening socket where there is no connection.
func TestNoConnection(t *testing.T) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	at := l.Addr().(*net.TCPAddr).AddrPort()
	d := diag{}
	for _, remote := range []string{"127.0.0.1:1", "192.0.2.1:4711"} {
		if uid, ok := d.userOf(at, netip.MustParseAddrPort(remote)); ok {
			t.Errorf("%s: UID %d", remote, uid)
		}
	}
	if uid, ok := d.userOf(netip.MustParseAddrPort("192.0.2.1:4711"), at); ok {
		t.Errorf("UID %d", uid)
	}
}

// FuzzAnswer reads what another kernel may write.
func FuzzAnswer(f *testing.F) {
	request := requestFor(netip.MustParseAddrPort("127.0.0.1:4711"), netip.MustParseAddrPort("127.0.0.1:4663"))
	f.Add(append([]byte{2, 1, 0, 0}, make([]byte, 68)...))
	f.Fuzz(func(t *testing.T, answer []byte) {
		if uid, ok := readAnswer(answer, request); ok && (len(answer) < answerSize || uid < 0) {
			t.Errorf("UID %d of %d bytes", uid, len(answer))
		}
	})
}

// Other users of this machine, in namespaces of their own or not, as the kernel tells of them.
func TestProcess(t *testing.T) {
	f := New()
	if got := f.Process(os.Getpid(), os.Getuid()); got != workload.UserOwner(os.Getuid()) {
		if _, ok := got.User(); !ok {
			t.Skipf("runs in %v", got)
		}
		t.Errorf("this process: %q", got)
	}
	const uid = 54321
	if got := f.Process(os.Getpid(), uid); got != workload.UserOwner(uid) {
		t.Errorf("a PID that is another user's by now: %q", got)
	}
	if got := f.Process(1<<22+1, uid); got != workload.UserOwner(uid) {
		t.Errorf("a process that has ended: %q", got)
	}
	if os.Geteuid() != 0 {
		t.Skip("needs root, to be another user")
	}
	c := exec.Command("setpriv", strings.Fields("--reuid 54321 --regid 54321 --clear-groups sleep 60")...)
	if err := c.Start(); err != nil {
		t.Skip(err)
	}
	defer c.Wait()
	defer c.Process.Kill()
	for range 1000 {
		if got := f.Process(c.Process.Pid, uid); got == workload.UserOwner(uid) {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Error("a process of another user is not found")
}

// What does not answer is left behind, and the UID has to do.
func TestProcessThatIsNotToldInTime(t *testing.T) {
	f := New()
	f.within = 0
	for range cap(f.asking) {
		f.asking <- struct{}{} // as many as may be left behind
	}
	began := time.Now()
	for range 100 {
		if got := f.Process(os.Getpid(), 54321); got != workload.UserOwner(54321) {
			t.Fatal(got)
		}
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("took %v", took)
	}
}

func BenchmarkConnection(b *testing.B) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	client, err := net.Dial("tcp4", l.Addr().String())
	if err != nil {
		b.Fatal(err)
	}
	defer client.Close()
	server, err := l.Accept()
	if err != nil {
		b.Fatal(err)
	}
	defer server.Close()
	f := New()
	for b.Loop() {
		if _, _, ok := f.Connection(server); !ok {
			b.Fatal("not found")
		}
	}
}

func BenchmarkProcess(b *testing.B) {
	f := New()
	for b.Loop() {
		f.Process(os.Getpid(), os.Getuid())
	}
}
