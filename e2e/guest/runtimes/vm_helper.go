//go:build linux

package runtimes

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/homenode/homenode/e2e/guest/lab"
)

const (
	storageSocket = "/tmp/storage.sock"
	storageMiB    = 24
	storageSize   = 1 << 20 // of the disk
)

// Storage is a process that serves a disk of zeros over NBD (proto.md of github.com/NetworkBlockDevice/nbd)
// and is busy a third of the time. Its memory lies on one node at first; it may run anywhere.
func Storage(node string) error {
	n, err := strconv.Atoi(node)
	if err != nil {
		return err
	}
	if err := os.WriteFile("/proc/self/comm", []byte("qemu-nbd"), 0); err != nil {
		return err
	}
	b, err := syscall.Mmap(-1, 0, storageMiB<<20, syscall.PROT_READ|syscall.PROT_WRITE,
		syscall.MAP_PRIVATE|syscall.MAP_ANON)
	if err != nil {
		return err
	}
	p := lab.Pages{Bytes: b}
	if err := p.Bind(lab.MpolBind, lab.SetOf(n)); err != nil {
		return err
	}
	p.Touch()
	if err := p.Bind(lab.MpolDefault, 0); err != nil {
		return err
	}
	l, err := net.Listen("unix", storageSocket)
	if err != nil {
		return err
	}
	if err := os.Chmod(storageSocket, 0o777); err != nil { // QEMU is another user's
		return err
	}
	go func() {
		for {
			for begun := time.Now(); time.Since(begun) < 50*time.Millisecond; {
			}
			time.Sleep(100 * time.Millisecond)
		}
	}()
	for {
		c, err := l.Accept()
		if err != nil {
			return err
		}
		go func() {
			if err := serveNBD(c); err != nil && !errors.Is(err, io.EOF) {
				fmt.Fprintln(os.Stderr, "NBD:", err)
			}
			c.Close()
		}()
	}
}

// serveNBD answers one client: the fixed newstyle negotiation with NBD_OPT_GO alone, then simple
// replies.
func serveNBD(c net.Conn) error {
	const (
		optionMagic, replyMagic = 0x49484156454f5054, 0x3e889045565a9
		requestMagic, simple    = 0x25609513, 0x67446698
		optGo, optExport        = 7, 1
		repAck                  = 1
		repInfo                 = 3
		repNone                 = 1<<31 + 1
		cmdRead                 = 0
		cmdWrite                = 1
		cmdOff                  = 2
	)
	in, out := bufio.NewReader(c), binary.BigEndian
	send := func(all ...any) error {
		var b []byte
		for _, x := range all {
			b, _ = binary.Append(b, out, x)
		}
		_, err := c.Write(b)
		return err
	}
	if err := send([]byte("NBDMAGIC"), uint64(optionMagic), uint16(3)); err != nil {
		return err
	}
	var flags uint32
	if err := binary.Read(in, out, &flags); err != nil {
		return err
	}
	for begun := false; !begun; {
		var opt struct {
			Magic     uint64
			Kind, Len uint32
		}
		if err := binary.Read(in, out, &opt); err != nil {
			return err
		}
		if _, err := io.CopyN(io.Discard, in, int64(opt.Len)); err != nil {
			return err
		}
		reply := func(kind uint32, data ...any) error {
			n := 0
			for _, x := range data {
				n += binary.Size(x)
			}
			return send(append([]any{uint64(replyMagic), opt.Kind, kind, uint32(n)}, data...)...)
		}
		var err error
		switch opt.Kind {
		case optGo:
			err = reply(repInfo, uint16(0), uint64(storageSize), uint16(1))
			if err == nil {
				err = reply(repAck)
			}
			begun = true
		case optExport:
			err, begun = send(uint64(storageSize), uint16(1)), true
		default:
			err = reply(repNone)
		}
		if err != nil {
			return err
		}
	}
	for {
		var r struct {
			Magic       uint32
			Flags, Kind uint16
			Cookie, At  uint64
			Len         uint32
		}
		if err := binary.Read(in, out, &r); err != nil {
			return err
		}
		data := []byte{}
		switch r.Kind {
		case cmdRead:
			data = make([]byte, min(r.Len, storageSize))
		case cmdWrite:
			if _, err := io.CopyN(io.Discard, in, int64(r.Len)); err != nil {
				return err
			}
		case cmdOff:
			return nil
		}
		if err := send(uint32(simple), uint32(0), r.Cookie, data); err != nil {
			return err
		}
	}
}

// libvirtHelper: a daemon that serves a guest's disk, started on another node, comes to the guest's
// node with its memory, comes after the guest when that is moved, and undo gives it its CPUs back.
func libvirtHelper(t *lab.T) {
	for _, v := range append([]*vm{plain, pinned}, six...) {
		remove(v.name)
	}
	os.Remove(storageSocket)
	server := exec.Command(lab.Self, "storage", "3")
	server.Stderr = os.Stderr
	t.Do(server.Start())
	t.Defer(func() { server.Process.Kill(); server.Wait() })
	t.Until(30*time.Second, "the storage daemon listens", func() (bool, string) {
		_, err := os.Stat(storageSocket)
		return err == nil, fmt.Sprint(err)
	})
	stored := &vm{name: "stored", vcpus: 1, mib: 48, nodes: 1}
	disk := `<disk type='network' device='disk'><driver name='qemu' type='raw'/><source protocol='nbd'><host transport='unix' socket='` + storageSocket + `'/></source><target dev='vda' bus='virtio'/></disk>`
	remove(stored.name)
	t.Must(virsh("define", xmlFile(t, stored.name, strings.Replace(plainXML(stored.name, ""), "<memballoon",
		disk+"<memballoon", 1))), lab.ExitOK)
	t.Defer(func() { remove(stored.name) })
	t.Do(os.WriteFile(flavorsPath, []byte(flavors), 0o644))
	t.Must(vmCommand("adopt", stored.name), lab.ExitOK)
	t.Must(vmCommand("move", stored.name, "--nodes", "1"), lab.ExitOK)
	startVMs(t, []*vm{stored})
	pid := server.Process.Pid
	every := t.Affinities(pid)
	if anon, err := lab.AnonByNode(pid); err != nil || lab.Share(anon, lab.SetOf(3)) < 0.5 {
		t.Fatalf("the storage daemon's memory is %s, %v", lab.ByNodeText(anon), err)
	}
	lab.FreshState()
	d := overGuests(t, "marked", true)
	seen(t, d, []*vm{stored})
	comes := func(node int) {
		t.Poll(vmLimit, time.Second, fmt.Sprintf("the storage daemon comes to node %d", node), func() (bool, string) {
			anon, _ := lab.AnonByNode(pid)
			cpus := t.Affinities(pid)
			return t.NodesOf(cpus) == lab.SetOf(node) && lab.Share(anon, lab.SetOf(node)) >= 0.9,
				fmt.Sprintf("it may use CPUs %s, its memory %s; %s", cpus, lab.ByNodeText(anon),
					lab.Homenode("explain", fmt.Sprintf("pid:%d", pid)).Out)
		})
	}
	comes(1)
	if r := t.Must(lab.Homenode("explain", fmt.Sprintf("pid:%d", pid)), lab.ExitOK); !strings.Contains(r.Out,
		"works for vm:stored and follows") {
		t.Fatalf("%s", r)
	}
	if r := t.Must(lab.Homenode("explain", "vm:stored"), lab.ExitOK); !strings.Contains(r.Out, storageSocket) ||
		!strings.Contains(r.Out, "it comes here") {
		t.Fatalf("%s", r)
	}
	t.Must(vmCommand("move", stored.name, "--nodes", "2"), lab.ExitOK)
	comes(2)
	t.Must(lab.Homenode("undo", fmt.Sprintf("pid:%d", pid)), lab.ExitOK)
	if now := t.Affinities(pid); now != every {
		t.Fatalf("after undo the storage daemon may use CPUs %s, before %s", now, every)
	}
	t.Alive(d)
	t.Stop(d)
	t.Textf("from node 3 to 1 and, after the guest, to 2, its memory with it; undone")
}
