package proc

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/homenode/homenode/core/workload"
)

// machine is a file tree with processes. Links are those of ns/user, by PID.
type machine struct {
	fstest.MapFS
	links map[string]string
}

func (m machine) ReadLink(name string) (string, error) {
	if to, ok := m.links[name]; ok {
		return to, nil
	}
	return "", &fs.PathError{Op: "readlink", Path: name, Err: fs.ErrNotExist}
}

func (m machine) file(name, text string) { m.MapFS[name] = &fstest.MapFile{Data: []byte(text)} }

// process adds a process with a UID, a cgroup and a user namespace.
func (m machine) process(pid int, uid, cgroup, userNS string) {
	m.file(File(pid, "status"), "Name:\tx\nUid:\t"+uid+"\t"+uid+"\t"+uid+"\t"+uid+"\n")
	m.file(File(pid, "cgroup"), "1:name=systemd:/x\n0::"+cgroup+"\n")
	m.file(File(pid, "ns/user"), userNS)
	m.links[File(pid, "ns/user")] = userNS
}

const (
	passwd = "root:x:0:0:root:/root:/bin/sh\nalice:x:1000:1000::/home/alice:/bin/sh\nbob:x:1001:1001::/:\ndockremap:x:109:109::/:\nhere:x:165600:1::/:\nbroken:x\n"
	subuid = "# comment\nalice:100000:65536\n1001:165536:65536\ndockremap:300000:65536\ngone:400000:65536\nbroken:1\nbob:0:70000\nbob:x:1\n"
)

func TestOwners(t *testing.T) {
	m := machine{fstest.MapFS{}, map[string]string{"proc/self/ns/user": "user:[1]"}}
	m.file("etc/passwd", passwd)
	m.file("etc/subuid", subuid)
	created := map[string]namespace{"user:[2]": {1000, 2}, "user:[3]": {0, 3}, "user:[4]": {109, 4}, "user:[5]": {100007, 5}}
	o := NewOwners(m)
	o.created = func(f fs.File) (namespace, error) {
		var name [16]byte
		n, _ := f.Read(name[:])
		ns, ok := created[string(name[:n])]
		if !ok {
			return ns, errors.ErrUnsupported
		}
		return ns, nil
	}
	for i, tt := range []struct {
		name, uid, cgroup, userNS string
		want                      workload.Owner
	}{
		{"root", "0", "/system.slice/x.service", "user:[1]", workload.SystemOwner},
		{"a service", "33", "/system.slice/x.service", "user:[1]", workload.SystemOwner},
		{"a user's cron job", "1000", "/system.slice/cron.service", "user:[1]", "user:1000"},
		{"root in a login", "0", "/user.slice/user-1000.slice/session-1.scope", "user:[1]", "user:1000"},
		{"a subordinate UID outside a namespace", "100007", "/", "user:[1]", "user:1000"},
		{"another user's, by UID", "165536", "/", "user:[1]", "user:1001"},
		{"an account within that range", "165600", "/", "user:[1]", "user:165600"},
		{"root in a user's namespace", "1000", "/", "user:[2]", "user:1000"},
		{"a subordinate UID in that user's", "100001", "/", "user:[2]", "user:1000"},
		{"a namespace that a subordinate UID created", "100007", "/", "user:[5]", "user:1000"},
		{"root in a namespace that root created", "0", "/", "user:[3]", workload.SystemOwner},
		{"a UID in a namespace that root created", "500000", "/", "user:[3]", "userns:3"},
		{"an account in a namespace that root created", "1001", "/system.slice/cron.service", "user:[3]", "user:1001"},
		{"a UID in a namespace of a service", "300001", "/", "user:[4]", "userns:4"},
		{"a range of a service", "300001", "/", "user:[1]", "user:300000"},
		{"a range of an unknown user", "400001", "/", "user:[1]", "user:400000"},
		{"root in a container", "0", "/system.slice/docker-" + strings.Repeat("a", 64) + ".scope", "user:[1]", workload.PodOwner(strings.Repeat("a", 64))},
		{"a container with userns-remap", "300000", "/docker/" + strings.Repeat("b", 64), "user:[3]", workload.PodOwner(strings.Repeat("b", 64))},
		{"a namespace that cannot be asked", "1001", "/", "user:[9]", "user:1001"},
	} {
		pid := 100 + i
		m.process(pid, tt.uid, tt.cgroup, tt.userNS)
		if got, err := o.Of(pid); got != tt.want || err != nil {
			t.Errorf("%s: %q, %v; want %q", tt.name, got, err, tt.want)
		}
	}
	if _, err := o.Of(99); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a process that has ended: %v", err)
	}
	m.file("etc/subuid", "bob:100000:65536\nother:1:1\n")
	o.subs.checked = time.Time{}
	if got := o.OfUID(100007); got != "user:1001" {
		t.Errorf("after usermod: %q", got)
	}
}

// FuzzSubuid reads files that anybody may have edited.
func FuzzSubuid(f *testing.F) {
	f.Add([]byte(passwd), []byte(subuid))
	f.Fuzz(func(t *testing.T, passwd, subuid []byte) {
		for _, r := range parseSubuid(subuid, parsePasswd(passwd)) {
			if r.first <= 0 || r.last < r.first {
				t.Errorf("range %+v", r)
			}
		}
	})
}

// A user's processes in namespaces of that user, as the kernel tells of them.
func TestOwnersOfThisMachine(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, to be another user")
	}
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		t.Fatal(err)
	}
	if owner, ok := workload.CgroupOwner(Cgroup(own)); ok {
		t.Skipf("runs in a cgroup of %v", owner)
	}
	const uid = "54321" // no service's, and in no range
	for _, nested := range []string{"sleep 60", "unshare -U sleep 60", "unshare -Ur unshare -Ur sleep 60"} {
		c := exec.Command("setpriv", append([]string{"--reuid", uid, "--regid", uid, "--clear-groups"}, strings.Fields(nested)...)...)
		if err := c.Start(); err != nil {
			t.Skip(err)
		}
		defer c.Wait()
		defer c.Process.Kill()
		deadline := time.Now().Add(20 * time.Second)
		for {
			name, _ := os.ReadFile("/" + File(c.Process.Pid, "comm"))
			if strings.TrimSpace(string(name)) == "sleep" {
				break
			}
			if time.Now().After(deadline) {
				t.Skipf("%s does not start: user namespaces may be off", nested)
			}
			time.Sleep(10 * time.Millisecond)
		}
		o := NewOwners(os.DirFS("/"))
		if got, err := o.Of(c.Process.Pid); got != "user:"+uid || err != nil {
			t.Errorf("%s: %q, %v", nested, got, err)
		}
		ns, ok := o.namespaceOf(c.Process.Pid)
		if wants := nested != "sleep 60"; ok != wants || wants && ns.creator != 54321 {
			t.Errorf("%s: namespace %+v, %t", nested, ns, ok)
		}
	}
	if got, err := NewOwners(os.DirFS("/")).Of(os.Getpid()); got != workload.SystemOwner || err != nil {
		t.Errorf("this process: %q, %v", got, err)
	}
}
