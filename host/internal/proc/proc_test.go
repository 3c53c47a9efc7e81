package proc

import (
	"errors"
	"reflect"
	"syscall"
	"testing"
	"time"
)

const catStat = "7238 (cat) R 7227 7230 5790 0 -1 4194304 103 0 0 0 3 4 0 0 20 0 2 0 90099 3133440 418 18446744073709551615 94354904276992 94354904296873 140724685387840 0 0 0 0 0 0 0 0 0 17 1 0 0 0 0 0\n"

func TestParseStat(t *testing.T) {
	s, err := ParseStat([]byte(catStat))
	want := Stat{PID: 7238, Comm: []byte("cat"), State: 'R', Parent: 7227, Group: 7230, Session: 5790, Flags: 4194304, Ticks: 7, Threads: 2, Start: 90099, RSS: 418, CPU: 1}
	if err != nil || !reflect.DeepEqual(s, want) {
		t.Errorf("%+v, %v", s, err)
	}
	if s, err := ParseStat([]byte("1 (a) R) (b) S 2" + catStat[18:])); err != nil || string(s.Comm) != "a) R) (b" || s.State != 'S' {
		t.Errorf("%+v, %v", s, err)
	}
	if _, err := ParseStat([]byte("910 (ls) X 0 -1 -1 0 -1 4228108 0 0 0 0 0 0 0 0 0 -120 0 0 90099 0 0 0\n")); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("a task that is gone: %v", err)
	}
	for _, bad := range []string{"", "1", "1 (a)", "1 (a) S 1", "x" + catStat, "1 (a) S -1" + catStat[18:]} {
		if s, err := ParseStat([]byte(bad)); err == nil {
			t.Errorf("%q: %+v", bad, s)
		}
	}
}

func TestParseStatus(t *testing.T) {
	s := ParseStatus([]byte("Name:\tx\nUid:\t1000\t0\t0\t0\nNSpid:\t77\t1\nVmPin:\t       3 kB\nVmLck:\t 4 kB\nHugetlbPages:\t    2048 kB\nCpus_allowed:\tff\nCpus_allowed_list:\t0-3,8\nMems_allowed_list:\t0\n"))
	if s.UID != 1000 || !s.First || s.Pinned != 3 || s.Locked != 4 || s.Huge != 2048 || string(s.CPUs) != "0-3,8" || string(s.Mems) != "0" {
		t.Errorf("%+v", s)
	}
	if s := ParseStatus([]byte("NSpid:\t1\nUid:\t-1\nHugetlbPages:\nCpus_allowed_list:")); s.First || s.UID != 0 || s.Huge != 0 || len(s.CPUs) != 0 {
		t.Errorf("%+v", s)
	}
}

func TestSmallFiles(t *testing.T) {
	if c := Cgroup([]byte("1:name=systemd:/x\n0::/a b\n")); c != "/a b" {
		t.Errorf("cgroup %q", c)
	}
	if c := Cgroup([]byte("1:name=systemd:/x\n")); c != "" {
		t.Errorf("cgroup %q", c)
	}
	if d := Uptime([]byte("1000.53 12.3\n")); d != 1000530*time.Millisecond {
		t.Errorf("uptime %v", d)
	}
	if at, ok := Booted([]byte("cpu 1 2\nbtime 1700000000\nprocesses 4\n")); !ok || at.Unix() != 1_700_000_000 {
		t.Errorf("booted %v, %v", at, ok)
	}
	for _, bad := range []string{"", "btime x\n", "btime -1\n"} {
		if at, ok := Booted([]byte(bad)); ok {
			t.Errorf("booted %v", at)
		}
	}
	some, full, ok := Pressure([]byte("some avg10=1.50 avg60=0.00 avg300=0.00 total=0\nfull avg10=0.25 avg60=0.00 avg300=0.00 total=0\n"))
	if some != 1.5 || full != 0.25 || !ok {
		t.Errorf("pressure %v, %v, %v", some, full, ok)
	}
	for _, bad := range []string{"", "some avg10=", "some avg10=NaN total", "some avg10=-1 ", "some avg10=101 "} {
		if _, _, ok := Pressure([]byte(bad)); ok {
			t.Errorf("pressure of %q", bad)
		}
	}
}

func TestMountinfo(t *testing.T) {
	got := Mountinfo([]byte("31 23 0:28 / /sys/fs/c\\040group rw,nosuid shared:9 - cgroup2 cgroup2 rw\n1 2 3 4 5 6 -\n"))
	want := []Mount{{"31", Device{0, 28}, "/", "/sys/fs/c group", "cgroup2"}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v", got)
	}
}

func TestMapping(t *testing.T) {
	var m Mapping
	for line, want := range map[string]Mapping{
		"565215fa5000 default file=/usr/bin/head anon=1 dirty=1 active=0 N0=1 kernelpagesize_kB=4\n": {
			Start: 0x565215fa5000, Policy: []byte("default"), Nodes: []NodePages{{0, 1}}, Pages: 1, Anon: 1, PageKiB: 4, File: []byte("/usr/bin/head"), HasFile: true},
		"7f00 weighted interleave:0-1 anon=3 mapmax=2 N0=1 N1=2 kernelpagesize_kB=4": {
			Start: 0x7f00, Policy: []byte("weighted"), Policy2: []byte("interleave:0-1"), Nodes: []NodePages{{0, 1}, {1, 2}}, Pages: 3, Anon: 3, PageKiB: 4, MapMax: 2},
		"7f10 prefer (many):0-1 huge dirty=512 N1=512 kernelpagesize_kB=2048": {
			Start: 0x7f10, Policy: []byte("prefer"), Policy2: []byte("(many):0-1"), Nodes: []NodePages{{1, 512}}, Pages: 512, PageKiB: 2048, Huge: true},
		"7f30 bind:1\n": {Start: 0x7f30, Policy: []byte("bind:1"), Nodes: []NodePages{}},
	} {
		if ok := m.Parse([]byte(line)); !ok || !reflect.DeepEqual(append([]NodePages{}, m.Nodes...), append([]NodePages{}, want.Nodes...)) {
			t.Errorf("%q: %v, %+v", line, ok, m)
		}
		nodes := m.Nodes
		m.Nodes, want.Nodes = nil, nil
		if !reflect.DeepEqual(m, want) {
			t.Errorf("%q: %+v, want %+v", line, m, want)
		}
		m.Nodes = nodes
	}
	for _, bad := range []string{"", "7f00", "xyz default", "7f00 default N0=1", "7f00 default N1024=1 kernelpagesize_kB=4", "7f00 default anon=x", "11112222333344445 default"} {
		if m.Parse([]byte(bad)) {
			t.Errorf("%q: %+v", bad, m)
		}
	}
}

func FuzzStat(f *testing.F) {
	f.Add([]byte(catStat))
	f.Add([]byte("1 (a) (b) c) S 1"))
	f.Add([]byte(") ("))
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := ParseStat(b)
		if err == nil && (s.PID < 0 || s.Parent < 0 || s.Threads < 0 || s.RSS < 0 || s.CPU < 0) {
			t.Fatalf("%+v", s)
		}
	})
}

func FuzzStatus(f *testing.F) {
	f.Add([]byte("Name:\tx\nHugetlbPages:\t    2048 kB\nCpus_allowed_list:\t0-3,8\nMems_allowed_list:\t0\n"))
	f.Add([]byte("HugetlbPages:\nCpus_allowed_list:"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if s := ParseStatus(b); s.Huge < 0 || s.Pinned < 0 || s.Locked < 0 || s.UID < 0 {
			t.Fatalf("%+v", s)
		}
	})
}

func FuzzSmallFiles(f *testing.F) {
	f.Add([]byte("1000.53 12.3\n"))
	f.Add([]byte("btime 1700000000\nsome avg10=1.50 avg60=0.00\n0::/x\n31 23 0:28 / /sys/fs/c\\040group rw - cgroup2 cgroup2 rw\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if d := Uptime(b); d < 0 {
			t.Fatal(d)
		}
		if some, full, _ := Pressure(b); !(some >= 0 && some <= 100 && full >= 0 && full <= 100) {
			t.Fatal(some, full)
		}
		Cgroup(b)
		Booted(b)
		Mountinfo(b)
	})
}

func FuzzMapping(f *testing.F) {
	f.Add([]byte("565215fa5000 default file=/usr/bin/head anon=1 dirty=1 active=0 N0=1 kernelpagesize_kB=4"))
	f.Add([]byte("7f10 x N0=4294967295 N0=4294967295 kernelpagesize_kB=33554432"))
	var m Mapping
	f.Fuzz(func(t *testing.T, b []byte) {
		if m.Parse(b) && m.Pages > 0 && m.Pages*m.PageKiB > MaxKiB {
			t.Fatalf("%+v", m)
		}
	})
}

func TestVCPU(t *testing.T) {
	for comm, want := range map[string]int{
		"vcpu0": 0, "vcpu17": 17, "vcpu": -1, "vcpu4096": -1, "vcpu1x": -1, "vcpus": -1, "fc_vcpu 3": 3, "fc_vcpu": -1, "fc_vcpu3": -1, "fc_vmm": -1,
		"crosvm_vcpu2": 2, "crosvm_vcpu": -1, "crosvm_disk0": -1, "CPU 0/KVM": 0, "CPU 12/TCG": 12, "CPU 4096/KVM": -1, "CPU x/KVM": -1, "CPU 3": -1, "CPU 3/": -1, "CPU 3/x": -1, "IO iothread1": -1, "": -1, "CPU /KVM": -1} {
		if n, ok := VCPU([]byte(comm)); ok != (want >= 0) || ok && n != want {
			t.Errorf("%q: %d, %t", comm, n, ok)
		}
	}
}

func TestMonitor(t *testing.T) {
	for comm, want := range map[string]bool{
		"qemu-system-x86": true, "kvm": true, "cloud-hyperviso": true, "firecracker": true, "crosvm": true, "crosvm_vcpu0": true,
		"cloud-init": false, "firefox": false, "": false, "postgres": false,
	} {
		if got := Monitor([]byte(comm)); got != want {
			t.Errorf("%q: %v", comm, got)
		}
	}
}
