package libvirt

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/godbus/dbus/v5"

	"github.com/homenode/homenode/host/internal/bus"
)

// fake is a service org.libvirt with the methods that are used here and the
// rules of libvirt that matter: a guest that is gone is not found, the nodes of a
// running guest change in mode restrictive alone, a pin needs a CPU that is there.
type fake struct {
	conn *dbus.Conn

	mu       sync.Mutex
	guests   []*fakeGuest
	refuse   map[string]*dbus.Error // by method
	meddle   func(method string)    // before each call, with the lock held
	calls    []string
	hostCPUs int
	failAt   int    // this call from now fails, 0 none
	absent   uint32 // this vCPU, and those after it, cannot be pinned; 0 none
}

type fakeGuest struct {
	f       *fake
	name    string
	live    string // XML while it runs, "" when it does not
	config  string // XML for the next start
	gone    bool
	threads []uint32 // IOThreads
	rss     uint64
	limits  map[string]map[string]dbus.Variant // by flags and device
	blocks  map[string]dbus.Variant
}

func libvirtError(format string, a ...any) *dbus.Error {
	return &dbus.Error{Name: "org.libvirt.Error", Body: []any{fmt.Sprintf(format, a...)}}
}

func startFake(t *testing.T) *fake {
	t.Helper()
	conn := bus.Start(t)
	f := &fake{conn: conn, refuse: map[string]*dbus.Error{}, hostCPUs: 16}
	if err := conn.Export(&connectMethods{f}, "/org/libvirt/QEMU", connectIface); err != nil {
		t.Fatal(err)
	}
	if err := conn.Export(&properties{func(name string) any {
		if name == "LibVersion" {
			return uint64(9_000_000)
		}
		return nil
	}}, "/org/libvirt/QEMU", propertiesIface); err != nil {
		t.Fatal(err)
	}
	if reply, err := conn.RequestName(service, dbus.NameFlagDoNotQueue); err != nil || reply != dbus.RequestNameReplyPrimaryOwner {
		t.Fatalf("own %s: %v, %v", service, reply, err)
	}
	return f
}

// edit changes the fake under its lock.
func (f *fake) edit(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

// called reports whether a method was, since the last look.
func (f *fake) called(method string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	defer func() { f.calls = nil }()
	return slices.Contains(f.calls, method)
}

// now is the guest's XML as it runs and as it will start.
func (g *fakeGuest) now() (live, config string) {
	g.f.mu.Lock()
	defer g.f.mu.Unlock()
	return g.live, g.config
}

func (f *fake) begin(method string) *dbus.Error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.meddle != nil {
		f.meddle(method)
	}
	f.calls = append(f.calls, method)
	if f.failAt > 0 && len(f.calls) == f.failAt {
		return libvirtError("broken on purpose")
	}
	return f.refuse[method]
}

func (f *fake) add(t *testing.T, name, live, config string) *fakeGuest {
	t.Helper()
	g := &fakeGuest{f: f, name: name, live: live, config: config}
	f.mu.Lock()
	f.guests = append(f.guests, g)
	f.mu.Unlock()
	if err := f.conn.Export(&domainMethods{g}, g.path(), domainIface); err != nil {
		t.Fatal(err)
	}
	if err := f.conn.Export(&properties{func(property string) any {
		f.mu.Lock()
		defer f.mu.Unlock()
		switch {
		case g.gone:
			return nil
		case property == "Active":
			return g.live != ""
		case property == "Persistent":
			return g.config != ""
		}
		return nil
	}}, g.path(), propertiesIface); err != nil {
		t.Fatal(err)
	}
	return g
}

func (g *fakeGuest) path() dbus.ObjectPath {
	return dbus.ObjectPath("/org/libvirt/QEMU/domain/_" + regexp.MustCompile(`\W`).ReplaceAllString(g.name, "_"))
}

type properties struct{ get func(name string) any }

func (p *properties) Get(_, name string) (dbus.Variant, *dbus.Error) {
	v := p.get(name)
	if v == nil {
		return dbus.Variant{}, libvirtError("Domain not found")
	}
	return dbus.MakeVariant(v), nil
}

type connectMethods struct{ f *fake }

func (c *connectMethods) ListDomains(uint32) ([]dbus.ObjectPath, *dbus.Error) {
	if err := c.f.begin("ListDomains"); err != nil {
		return nil, err
	}
	c.f.mu.Lock()
	defer c.f.mu.Unlock()
	out := []dbus.ObjectPath{}
	for _, g := range c.f.guests {
		if !g.gone {
			out = append(out, g.path())
		}
	}
	return out, nil
}

func (c *connectMethods) DomainLookupByName(name string) (dbus.ObjectPath, *dbus.Error) {
	if err := c.f.begin("DomainLookupByName"); err != nil {
		return "", err
	}
	c.f.mu.Lock()
	defer c.f.mu.Unlock()
	for _, g := range c.f.guests {
		if g.name == name && !g.gone {
			return g.path(), nil
		}
	}
	return "", libvirtError("Domain not found: no domain with matching name '%s'", name)
}

func (c *connectMethods) GetAllDomainStats(stats, flags uint32) ([]record, *dbus.Error) {
	if err := c.f.begin("GetAllDomainStats"); err != nil {
		return nil, err
	}
	c.f.mu.Lock()
	defer c.f.mu.Unlock()
	var out []record
	for _, g := range c.f.guests {
		if g.gone || flags&statsActive != 0 && g.live == "" {
			continue
		}
		r := record{g.name, map[string]dbus.Variant{}}
		if stats&statsState != 0 {
			r.Stats["state.state"] = dbus.MakeVariant(int32(5))
		}
		if g.live != "" && stats&statsBlock != 0 {
			maps.Copy(r.Stats, g.blocks)
		}
		if g.live != "" {
			r.Stats["balloon.rss"] = dbus.MakeVariant(g.rss)
			if stats&statsState != 0 {
				r.Stats["state.state"] = dbus.MakeVariant(int32(1))
				n, _ := strconv.ParseUint(regexp.MustCompile(`<vcpu[^>]*>(\d+)<`).FindStringSubmatch(g.live)[1], 10, 32)
				if m := regexp.MustCompile(`<vcpu[^>]* current='(\d+)'`).FindStringSubmatch(g.live); m != nil {
					n, _ = strconv.ParseUint(m[1], 10, 32)
				}
				r.Stats["vcpu.current"] = dbus.MakeVariant(uint32(n))
			}
		}
		out = append(out, r)
	}
	return out, nil
}

func (c *connectMethods) DomainDefineXML(xml string) (dbus.ObjectPath, *dbus.Error) {
	if err := c.f.begin("DomainDefineXML"); err != nil {
		return "", err
	}
	c.f.mu.Lock()
	defer c.f.mu.Unlock()
	name := regexp.MustCompile(`<name>(.*?)</name>`).FindStringSubmatch(xml)
	for _, g := range c.f.guests {
		if name != nil && g.name == name[1] {
			g.config = xml
			return g.path(), nil
		}
	}
	return "", libvirtError("the fake knows no guest of that name")
}

type domainMethods struct{ g *fakeGuest }

// enter is the beginning of every call on a guest; it leaves with the lock held.
func (d *domainMethods) enter(method string, flags uint32) *dbus.Error {
	err := d.g.f.begin(method)
	d.g.f.mu.Lock()
	switch {
	case err != nil:
		return err
	case d.g.gone:
		return libvirtError("Domain not found: no domain with matching uuid")
	case flags == affectLive && d.g.live == "":
		return libvirtError("Requested operation is not valid: domain is not running")
	}
	return nil
}

func (d *domainMethods) leave() { d.g.f.mu.Unlock() }

func (d *domainMethods) GetXMLDesc(flags uint32) (string, *dbus.Error) {
	defer d.leave()
	if err := d.enter("GetXMLDesc", 0); err != nil {
		return "", err
	}
	if flags&xmlInactive != 0 || d.g.live == "" {
		if flags&xmlSecure == 0 {
			return strings.ReplaceAll(d.g.config, " passwd='secret'", ""), nil
		}
		return d.g.config, nil
	}
	return d.g.live, nil
}

func list(cpus []bool) string {
	var out []string
	for i, on := range cpus {
		if on {
			out = append(out, strconv.Itoa(i))
		}
	}
	return strings.Join(out, ",")
}

func (d *domainMethods) pin(method string, cpus []bool, flags uint32, was *regexp.Regexp, now string) *dbus.Error {
	defer d.leave()
	if err := d.enter(method, flags); err != nil {
		return err
	}
	if len(cpus) > d.g.f.hostCPUs || list(cpus) == "" {
		return libvirtError("invalid argument: cpumap")
	}
	if was.MatchString(d.g.live) {
		d.g.live = was.ReplaceAllString(d.g.live, now)
		return nil
	}
	d.g.live = regexp.MustCompile(`(<cputune>(?:<shares>\d+</shares>)?)`).ReplaceAllString(d.g.live, "$1"+now)
	if !strings.Contains(d.g.live, now) {
		d.g.live = strings.Replace(d.g.live, "</domain>", "<cputune>"+now+"</cputune></domain>", 1)
	}
	return nil
}

func (d *domainMethods) PinVcpu(vcpu uint32, cpus []bool, flags uint32) *dbus.Error {
	if n := d.g.f.absent; n > 0 && vcpu >= n {
		return libvirtError("requested vcpu '%d' is not present in the domain", vcpu)
	}
	return d.pin("PinVcpu", cpus, flags, regexp.MustCompile(fmt.Sprintf(`<vcpupin vcpu='%d'[^>]*>`, vcpu)), fmt.Sprintf("<vcpupin vcpu='%d' cpuset='%s'/>", vcpu, list(cpus)))
}

func (d *domainMethods) PinEmulator(cpus []bool, flags uint32) *dbus.Error {
	return d.pin("PinEmulator", cpus, flags, regexp.MustCompile(`<emulatorpin[^>]*>`), fmt.Sprintf("<emulatorpin cpuset='%s'/>", list(cpus)))
}

func (d *domainMethods) PinIOThread(id uint32, cpus []bool, flags uint32) *dbus.Error {
	return d.pin("PinIOThread", cpus, flags, regexp.MustCompile(fmt.Sprintf(`<iothreadpin iothread='%d'[^>]*>`, id)), fmt.Sprintf("<iothreadpin iothread='%d' cpuset='%s'/>", id, list(cpus)))
}

func (d *domainMethods) GetVcpuPinInfo(flags uint32) ([][]bool, *dbus.Error) {
	defer d.leave()
	if err := d.enter("GetVcpuPinInfo", flags); err != nil {
		return nil, err
	}
	m := regexp.MustCompile(`<vcpu[^>]*>(\d+)<`).FindStringSubmatch(d.g.live)
	n, _ := strconv.Atoi(m[1])
	out := make([][]bool, n)
	for i := range out {
		out[i] = make([]bool, d.g.f.hostCPUs)
	}
	return out, nil
}

type ioThread struct {
	ID   uint32
	CPUs []bool
}

func (d *domainMethods) GetIOThreadInfo(flags uint32) ([]ioThread, *dbus.Error) {
	defer d.leave()
	if err := d.enter("GetIOThreadInfo", flags); err != nil {
		return nil, err
	}
	out := []ioThread{}
	for _, id := range d.g.threads {
		out = append(out, ioThread{id, make([]bool, d.g.f.hostCPUs)})
	}
	return out, nil
}

var memoryElement = regexp.MustCompile(`<memory mode='(\w+)' nodeset='[^']*'/>`)

func (d *domainMethods) SetNumaParameters(params map[string]dbus.Variant, flags uint32) *dbus.Error {
	defer d.leave()
	if err := d.enter("SetNumaParameters", flags); err != nil {
		return err
	}
	nodes, ok := params["numa_nodeset"].Value().(string)
	if !ok {
		return libvirtError("invalid argument: numa_nodeset")
	}
	m := memoryElement.FindStringSubmatch(d.g.live)
	mode, named := params["numa_mode"].Value().(int32)
	if m == nil { // the mode is strict where none is named, and cannot change from then on
		word := "strict"
		if named && mode == restrictive {
			word = "restrictive"
		}
		d.g.live = strings.Replace(d.g.live, "</domain>", "<numatune><memory mode='"+word+"' nodeset='"+nodes+"'/></numatune></domain>", 1)
		return nil
	}
	if m[1] != "restrictive" || named && mode != restrictive {
		return libvirtError("Requested operation is not valid: change of nodeset for running domain requires restrictive numa mode")
	}
	d.g.live = memoryElement.ReplaceAllString(d.g.live, "<memory mode='restrictive' nodeset='"+nodes+"'/>")
	return nil
}

func (d *domainMethods) SetMetadata(kind int32, text, key, uri string, flags uint32) *dbus.Error {
	defer d.leave()
	if err := d.enter("SetMetadata", flags); err != nil {
		return err
	}
	if kind != metadataOfOwn || !strings.HasPrefix(text, "<guest ") {
		return libvirtError("invalid argument: metadata %q", text)
	}
	d.g.live = regexp.MustCompile(`(?s)<metadata>.*?</metadata>`).ReplaceAllString(d.g.live, "")
	el := "<" + key + ":guest xmlns:" + key + "='" + uri + "' " + strings.TrimPrefix(text, "<guest ")
	d.g.live = strings.Replace(d.g.live, "</domain>", "<metadata>"+el+"</metadata></domain>", 1)
	return nil
}

// soon waits for what a goroutine does; it is no measure of speed.
const soon = 30 * time.Second

// signal emits a lifecycle event of libvirt.
func (g *fakeGuest) signal(t *testing.T, event int32) {
	t.Helper()
	if err := g.f.conn.Emit("/org/libvirt/QEMU", connectIface+".DomainEvent", g.path(), event, int32(0)); err != nil {
		t.Fatal(err)
	}
}

// started runs a guest, as libvirt does.
func (g *fakeGuest) started(t *testing.T, live string) {
	t.Helper()
	g.f.edit(func() { g.live = live })
	g.signal(t, 2)
}

func (g *fakeGuest) stopped(t *testing.T) {
	t.Helper()
	g.f.edit(func() { g.live, g.gone = "", g.config == "" })
	g.signal(t, 5)
}

// limited sets parameters of a device. As libvirt does, it has no limit of a kind both in
// all and apart.
func (d *domainMethods) limited(method, device string, params map[string]dbus.Variant, flags uint32) *dbus.Error {
	defer d.leave()
	if err := d.enter(method, flags&affectLive); err != nil {
		return err
	}
	if flags&affectConfig != 0 && d.g.config == "" {
		return libvirtError("Requested operation is not valid: cannot modify device on transient domain")
	}
	if err := d.g.f.refuse[device]; err != nil {
		return err
	}
	for key, v := range params {
		if (method == "SetInterfaceParameters") != (v.Signature().String() == "u") {
			return libvirtError("invalid argument: type of %s", key)
		}
		d.g.limits[fmt.Sprintf("%d %s", flags, device)][key] = v
	}
	return nil
}

func (d *domainMethods) limits(method, device string, flags uint32) (map[string]dbus.Variant, *dbus.Error) {
	defer d.leave()
	if err := d.enter(method, flags&affectLive); err != nil {
		return nil, err
	}
	if d.g.limits == nil {
		d.g.limits = map[string]map[string]dbus.Variant{}
	}
	key := fmt.Sprintf("%d %s", flags, device)
	if d.g.limits[key] == nil {
		all := map[string]dbus.Variant{"group_name": dbus.MakeVariant("")}
		for _, name := range []string{"total_bytes_sec", "read_bytes_sec", "total_iops_sec", "total_iops_sec_max"} {
			all[name] = dbus.MakeVariant(uint64(0))
		}
		if method == "GetInterfaceParameters" {
			all = map[string]dbus.Variant{}
			for _, name := range []string{"inbound.average", "inbound.peak", "inbound.burst", "outbound.average", "outbound.peak", "outbound.burst"} {
				all[name] = dbus.MakeVariant(uint32(0))
			}
		}
		d.g.limits[key] = all
	}
	return maps.Clone(d.g.limits[key]), nil
}

func (d *domainMethods) GetInterfaceParameters(device string, flags uint32) (map[string]dbus.Variant, *dbus.Error) {
	return d.limits("GetInterfaceParameters", device, flags)
}

func (d *domainMethods) GetBlockIOTune(device string, flags uint32) (map[string]dbus.Variant, *dbus.Error) {
	return d.limits("GetBlockIOTune", device, flags)
}

func (d *domainMethods) SetInterfaceParameters(device string, params map[string]dbus.Variant, flags uint32) *dbus.Error {
	return d.limited("SetInterfaceParameters", device, params, flags)
}

func (d *domainMethods) SetBlockIOTune(disk string, params map[string]dbus.Variant, flags uint32) *dbus.Error {
	return d.limited("SetBlockIOTune", disk, params, flags)
}

func (d *domainMethods) GetStats(stats, _ uint32) (map[string]dbus.Variant, *dbus.Error) {
	defer d.leave()
	if err := d.enter("GetStats", 0); err != nil {
		return nil, err
	}
	if stats != statsBlock {
		return nil, libvirtError("the fake knows no such statistics")
	}
	return map[string]dbus.Variant{"block.count": dbus.MakeVariant(uint32(1)),
		"block.0.name": dbus.MakeVariant("vda"), "block.0.capacity": dbus.MakeVariant(uint64(100 << 30))}, nil
}
