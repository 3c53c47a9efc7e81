package probe

import (
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/homenode/homenode/core/measure"
	"github.com/homenode/homenode/core/topology"
)

// ErrNoMSR says that prefetchers were to be switched and cannot be.
var ErrNoMSR = errors.New("--msr is not possible here")

// errSwitching is wrapped while another run holds the prefetchers.
var errSwitching = errors.New("another run of `homenode probe` switches prefetchers")

// prefetchers are the switches of one CPU's hardware prefetchers: bits of a
// model-specific register, 1 is off.
type prefetchers struct {
	file  *os.File // /dev/cpu/N/msr, see msr(4)
	reg   int64
	off   uint64
	was   uint64
	saved string // file that tells what was, while it is changed
	lock  *os.File
}

// Registers. Intel, "Disclosure of Hardware Prefetcher Control on Some Intel
// Processors": L2 stream, L2 adjacent line, L1 stream, L1 stride. AMD APM
// volume 2, Prefetch Control: L1 stream, stride and region, L2 stream, up/down.
const (
	intelReg, intelOff = 0x1a4, 0xf
	amdReg, amdOff     = 0xc0000108, 0x2f
	// amdLeaf, bit 13 of EAX: the register is there.
	amdLeaf, amdBit = 0x80000021, 1 << 13
)

// leftOff is what a run that changed a register writes down first. Should it be
// killed, the next run puts the register back.
type leftOff struct {
	Boot string `json:"boot_id"`
	CPU  int    `json:"cpu"`
	Reg  int64  `json:"register"`
	Was  uint64 `json:"was"`
}

func (m *Machine) msrFile(cpu topology.CPUID, kind string) string {
	dir := cmp.Or(m.CPUFiles, "/dev/cpu")
	return filepath.Join(dir, fmt.Sprint(int(cpu)), kind)
}

// switches tells where this machine's CPUs have their prefetcher switches.
func (m *Machine) switches() (reg int64, off uint64, err error) {
	vendor, family := cpuVendor(m.Root)
	switch {
	case vendor == "GenuineIntel" && family == "6":
		return intelReg, intelOff, nil
	case vendor == "AuthenticAMD":
		return amdReg, amdOff, nil
	}
	return 0, 0, fmt.Errorf("no switches are known for prefetchers of this CPU (%s family %s)", vendor, family)
}

// openPrefetchers finds the switches of a CPU; nothing is changed yet. No other
// run can switch any until they are closed.
func (m *Machine) openPrefetchers(cpu topology.CPUID) (_ *prefetchers, err error) {
	p := &prefetchers{saved: m.Restore}
	defer func() {
		if err != nil {
			p.close()
			err = fmt.Errorf("%w: %w", ErrNoMSR, err)
		}
	}()
	if p.reg, p.off, err = m.switches(); err != nil {
		return nil, err
	}
	if p.reg == amdReg {
		if err := m.amdHasSwitches(cpu); err != nil {
			return nil, err
		}
	}
	if p.file, err = os.OpenFile(m.msrFile(cpu, "msr"), os.O_RDWR, 0); err != nil {
		return nil, fmt.Errorf("it needs root and the kernel module msr: %w", err)
	}
	if p.lock, err = m.lockPrefetchers(); err != nil {
		return nil, err
	}
	// Another run may have been killed since this one began.
	if err := m.putBack(); err != nil {
		return nil, err
	}
	if p.was, err = p.read(); err != nil {
		return nil, fmt.Errorf("register %#x does not read (a virtual machine has none): %w", p.reg, err)
	}
	return p, nil
}

// close lets other runs switch; a second time does no harm.
func (p *prefetchers) close() {
	p.file.Close()
	p.lock.Close()
}

// lockPrefetchers keeps other runs from switching until the file is closed, by the
// end of the process too. It wraps errSwitching when one does.
func (m *Machine) lockPrefetchers() (*os.File, error) {
	if m.Restore == "" {
		return nil, errors.New("there is no state folder to write the old value to")
	}
	if err := os.MkdirAll(filepath.Dir(m.Restore), 0o755); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(m.Restore+".lock", os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	for err = unix.EINTR; err == unix.EINTR; {
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	}
	if err == unix.EWOULDBLOCK {
		err = errSwitching
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("lock %s: %w", f.Name(), err)
	}
	return f, nil
}

// amdHasSwitches asks cpuid(4).
func (m *Machine) amdHasSwitches(cpu topology.CPUID) error {
	f, err := os.Open(m.msrFile(cpu, "cpuid"))
	if err != nil {
		return fmt.Errorf("whether this CPU has switches is told by the kernel module cpuid: %w", err)
	}
	defer f.Close()
	var regs [16]byte
	if _, err := f.ReadAt(regs[:], amdLeaf); err != nil {
		return fmt.Errorf("read cpuid leaf %#x: %w", amdLeaf, err)
	}
	if binary.LittleEndian.Uint32(regs[:])&amdBit == 0 {
		return errors.New("this CPU, or the machine it is virtual on, has no prefetch control register (Zen 4 and " +
			"newer have)")
	}
	return nil
}

func cpuVendor(root fs.FS) (vendor, family string) {
	text, _ := fs.ReadFile(root, "proc/cpuinfo")
	for line := range strings.Lines(string(text)) {
		key, value, _ := strings.Cut(line, ":")
		switch strings.TrimSpace(key) {
		case "vendor_id":
			vendor = strings.TrimSpace(value)
		case "cpu family":
			return vendor, strings.TrimSpace(value)
		}
	}
	return vendor, family
}

func (p *prefetchers) read() (uint64, error) {
	var b [8]byte
	_, err := p.file.ReadAt(b[:], p.reg)
	return binary.LittleEndian.Uint64(b[:]), err
}

// write sets the register and looks whether it took.
func (p *prefetchers) write(v uint64) error {
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], v)
	if _, err := p.file.WriteAt(b[:], p.reg); err != nil {
		return fmt.Errorf("write register %#x: %w", p.reg, err)
	}
	if now, err := p.read(); err != nil || now != v {
		return fmt.Errorf("write register %#x: it reads %#x after %#x was written (%v)", p.reg, now, v, err)
	}
	return nil
}

// promise writes down what the register holds, before it is changed: whole or not
// at all. The lock is held.
func (p *prefetchers) promise(boot string, cpu topology.CPUID) error {
	if boot == "" {
		return fmt.Errorf("%w: the kernel tells no boot ID to write down with the old value", ErrNoMSR)
	}
	b, err := json.Marshal(leftOff{boot, int(cpu), p.reg, p.was})
	if err != nil {
		return err
	}
	name := p.saved + ".new"
	os.Remove(name) // of a run that was killed right here
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("%w: write down the old value: %w", ErrNoMSR, err)
	}
	defer os.Remove(name)
	_, err = f.Write(b)
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Link(name, p.saved) // unlike rename, never over another promise
	}
	if err != nil {
		return fmt.Errorf("%w: write down the old value: %w", ErrNoMSR, err)
	}
	return nil
}

// restore puts the register's switches back, leaves its other bits as they are, and
// only then forgets the promise.
func (p *prefetchers) restore() error {
	now, err := p.read()
	if err == nil {
		err = p.write(now&^p.off | p.was&p.off)
	}
	if err != nil {
		return fmt.Errorf("prefetchers are not as they were; `homenode probe` tries again: %w", err)
	}
	return os.Remove(p.saved)
}

// restoreLeft restores what a run that was killed left changed. What a run that is
// alive has changed is that run's.
func (m *Machine) restoreLeft() error {
	if m.Restore == "" {
		return nil
	}
	if _, err := os.Lstat(m.Restore); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	lock, err := m.lockPrefetchers()
	if errors.Is(err, errSwitching) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("prefetchers may have been left off: %w", err)
	}
	defer lock.Close()
	return m.putBack()
}

// putBack is restoreLeft with the lock held. The file is not trusted: only the
// switches this CPU has are written.
func (m *Machine) putBack() error {
	b, err := os.ReadFile(m.Restore)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil && len(b) == 0 { // killed before it was written, and so before any change
		return os.Remove(m.Restore)
	}
	var left leftOff
	if err == nil {
		err = json.Unmarshal(b, &left)
	}
	boot := m.bootID()
	if err == nil && (boot == "" || left.Boot == "") {
		err = errors.New("without a boot ID nothing tells whether the machine was restarted since")
	}
	if err == nil && left.Boot != boot { // the firmware has set it anew
		return os.Remove(m.Restore)
	}
	var off uint64
	if err == nil {
		var reg int64
		if reg, off, err = m.switches(); err == nil && left.Reg != reg {
			err = fmt.Errorf("register %#x is not the one of the prefetchers, %#x", left.Reg, reg)
		}
	}
	if err != nil {
		return fmt.Errorf("prefetchers may have been left off: read %s: %w; restarting the machine sets them back, "+
			"then remove the file", m.Restore, err)
	}
	f, err := os.OpenFile(m.msrFile(topology.CPUID(left.CPU), "msr"), os.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("prefetchers of CPU %d were left off by a run that was killed: %w", left.CPU, err)
	}
	defer f.Close()
	p := &prefetchers{file: f, reg: left.Reg, off: off, was: left.Was, saved: m.Restore}
	return p.restore()
}

func (m *Machine) bootID() string {
	b, _ := fs.ReadFile(m.Root, "proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(b))
}

// prefetched measures the first local cell with the CPU's prefetchers on and
// off by turns, and says by what share they lower its latency.
func (s *session) prefetched() (effect measure.Value, err error) {
	first := s.plan.NodeCPUs[0]
	a := s.arenas[first.Node]
	if a == nil || a.err != nil {
		return measure.Unknown, nil
	}
	a.needRing(s)
	if err := s.moveTo(first.CPU); err != nil {
		return measure.Unknown, err
	}
	p := s.prefetch
	if err := p.promise(s.m.bootID(), first.CPU); err != nil {
		return measure.Unknown, err
	}
	defer func() { err = errors.Join(err, p.restore()) }()
	res := measure.Collect(s.ctx, []measure.Cell{{Col: 0}, {Col: 1}}, func(_, col int) (measure.Sample, error) {
		if err := p.write([2]uint64{p.was &^ p.off, p.was | p.off}[col]); err != nil {
			return measure.Sample{}, err
		}
		return s.chase(a, measure.SampleLoads), nil
	}, measure.DefaultRule, 13, nil)
	for _, r := range res {
		err = errors.Join(err, r.Err)
	}
	ratios := measure.Ratios(res[measure.Cell{Col: 0}], res[measure.Cell{Col: 1}])
	if err != nil || len(ratios) < measure.MinUseful {
		return measure.Unknown, err
	}
	return measure.Value(1 - measure.Median(ratios)), nil
}
