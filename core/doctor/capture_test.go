package doctor

import (
	"bytes"
	"errors"
	"os"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/homenode/homenode/core/measure"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/topology/acpi"
)

// secret is in every file of the machine below, wherever a name could stand.
const secret = "acme-secret"

func secretMachine(t *testing.T) (fstest.MapFS, *topology.Host) {
	t.Helper()
	h, err := topology.FromSynthetic("package:2 node:1(memory=64GiB) core:4 pu:1")
	if err != nil {
		t.Fatal(err)
	}
	h.Devices = []topology.Device{{Name: secret + "0", Kind: topology.NIC, PCI: "0000:81:00.0", Node: 1}}
	fsys := fstest.MapFS{}
	for name, text := range map[string]string{
		"proc/cmdline":                                                    "root=/dev/" + secret + " numa=off ip=10.1.2.3 acpi=on\n",
		"proc/cpuinfo":                                                    "processor\t: 0\nvendor_id\t: GenuineIntel\nmodel name\t: Test CPU\nserial\t: " + secret + "\nflags\t\t: fpu hypervisor sse\n",
		"proc/sys/kernel/osrelease":                                       "6.12.3-" + secret + "\n",
		"proc/sys/kernel/arch":                                            "x86_64\n",
		"proc/sys/kernel/hostname":                                        secret + "\n",
		"proc/sys/kernel/numa_balancing":                                  "1\n",
		"proc/sys/vm/zone_reclaim_mode":                                   "0\n",
		"proc/sys/kernel/perf_event_paranoid":                             "2\n",
		"sys/bus/event_source/devices/cpu/type":                           "4\n",
		"sys/bus/event_source/devices/software/type":                      "1\n",
		"sys/bus/event_source/devices/uncore_imc_0/events/cas_count_read": "event=0x04,umask=0x03\n",
		"sys/fs/resctrl/info/L3_MON/mon_features":                         "llc_occupancy\nmbm_total_bytes\n",
		"proc/17/comm":                                                    secret + "\n",
		"sys/kernel/mm/transparent_hugepage/enabled":                      "always [madvise] never\n",
		"sys/class/dmi/id/product_serial":                                 secret + "\n",
		"sys/class/dmi/id/sys_vendor":                                     "QEMU\n",
		"sys/firmware/dmi/entries/17-0/raw":                               string(dimmBytes(16384, 3200, secret, secret)),
		"run/libvirt/qemu/a.xml":                                          "<domstatus><name>" + secret + "</name><vcpupin vcpu='0'/></domstatus>",
		"sys/bus/pci/devices/0000:81:00.0/msi_irqs/40":                    "msix",
		"proc/irq/40/effective_affinity_list":                             "0\n",
	} {
		fsys[name] = &fstest.MapFile{Data: []byte(text)}
	}
	for _, table := range []string{"SRAT", "SLIT", "HMAT"} {
		data, err := os.ReadFile("../topology/acpi/testdata/hmat/" + table)
		if err != nil {
			t.Fatal(err)
		}
		copy(data[10:], "ACMEINACMECORP12\x01\x00\x00\x00ACME")
		data[9] = 0
		sum := byte(0)
		for _, b := range data {
			sum += b
		}
		data[9] = -sum
		fsys["sys/firmware/acpi/tables/"+table] = &fstest.MapFile{Data: data}
	}
	return fsys, h
}

// A captured machine is judged as the live one is, and names nobody.
func TestCapture(t *testing.T) {
	fsys, h := secretMachine(t)
	taken := fstest.MapFS{}
	for _, l := range Capture(fsys) {
		taken[l.Name] = &fstest.MapFile{Data: l.Data}
		if b := bytes.ToLower(l.Data); bytes.Contains(b, []byte("acme")) || bytes.Contains(b, []byte("10.1.2.3")) {
			t.Errorf("%s: %q", l.Name, l.Data)
		}
	}
	live, elsewhere := Gather(fsys, h), Gather(taken, h)
	if live.Firmware == nil || elsewhere.Firmware == nil || len(elsewhere.Firmware.Domains) != len(live.Firmware.Domains) || elsewhere.Firmware.HMATLatency.At(0, 2) != 400 {
		t.Errorf("firmware %+v, live %+v", elsewhere.Firmware, live.Firmware)
	}
	a, b := elsewhere.Host, live.Host
	if a.CPU != b.CPU || a.Arch != "x86_64" || a.Virt != "qemu" || b.Virt != "qemu" || a.THP != b.THP || strings.Join(a.CmdlineNUMA, " ") != "numa=off acpi=on" || a.Kernel != "6.12.3" {
		t.Errorf("host %+v, live %+v", a, b)
	}
	if *elsewhere.Settings.Balancing != 1 || *elsewhere.Settings.ZoneReclaim != 0 {
		t.Errorf("settings %+v", elsewhere.Settings)
	}
	if x, y := Diagnose(elsewhere, DefaultLimits), Diagnose(live, DefaultLimits); x.State != y.State {
		t.Errorf("verdict %s, live %s", x.State, y.State)
	}
	// A folder of tables without the SRAT is a fact, and stays one.
	for _, table := range []string{"SRAT", "SLIT", "HMAT"} {
		delete(fsys, "sys/firmware/acpi/tables/"+table)
	}
	fsys["sys/firmware/acpi/tables/DSDT"] = &fstest.MapFile{}
	taken = fstest.MapFS{}
	for _, l := range Capture(fsys) {
		taken[l.Name] = &fstest.MapFile{Data: l.Data}
	}
	if f := Firmware(taken); f == nil || f.SRAT {
		t.Errorf("firmware %+v; want one without SRAT", f)
	}
	if got := Capture(fstest.MapFS{}); len(got) != 0 {
		t.Errorf("captured of nothing: %v", got)
	}
}

// What a bundle holds names nobody, and the document it was made of is as it was.
func TestAnonymous(t *testing.T) {
	fsys, h := secretMachine(t)
	d := Gather(fsys, h)
	d.Run = &measure.Run{Notes: []string{"kept in /home/" + secret + "/state: not written; see /sys/devices", "/dev/cpu/0/msr"}}
	clean := Anonymous(d)
	var b strings.Builder
	if err := clean.Write(&b); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(b.String(), secret) || clean.Host.Fingerprint != "" || clean.Host.Kernel != "6.12.3" || clean.Settings.Queues[0].Device != "nic0" {
		t.Errorf("%s", b.String())
	}
	if n := clean.Run.Notes; n[0] != "kept in (a file): not written; see /sys/devices" || n[1] != "/dev/cpu/0/msr" {
		t.Errorf("notes %q", n)
	}
	if d.Host.Fingerprint == "" || d.Settings.Queues[0].Device != secret+"0" || !strings.Contains(d.Run.Notes[0], secret) {
		t.Error("the document itself was changed")
	}
	if _, err := measure.Read(strings.NewReader(b.String())); err != nil {
		t.Error(err)
	}
}

func TestAnonymousTableIsChecked(t *testing.T) {
	if _, err := acpi.Anonymous([]byte("SRAT"), "SRAT"); !errors.Is(err, acpi.ErrShort) {
		t.Error(err)
	}
}
