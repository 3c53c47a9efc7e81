package topology

import (
	"bufio"
	"compress/gzip"
	"io"
	"io/fs"
	"strconv"
	"strings"
)

// CacheAware is the state of the kernel's cache-aware scheduling: with it Linux 7.2 and later keep the
// threads of one process in one last-level cache (CONFIG_SCHED_CACHE, kernel/sched/fair.c).
type CacheAware struct {
	State CacheAwareState `json:"state"` // state: on, off, built-in, none or unknown
	From  string          `json:"from"`  // file or kernel version that says so; "" when nothing does
}

// CacheAwareState is one state of cache-aware scheduling.
type CacheAwareState string

// States. The kernel shows in debugfs alone whether it is on. BuiltIn is for hosts without debugfs: it is
// on there unless a user switched it off.
const (
	CacheAwareOn      CacheAwareState = "on"
	CacheAwareOff     CacheAwareState = "off"
	CacheAwareBuiltIn CacheAwareState = "built-in"
	CacheAwareNone    CacheAwareState = "none"
	CacheAwareUnknown CacheAwareState = "unknown"
)

// Works reports whether the kernel keeps processes in caches, as far as is known.
func (c CacheAware) Works() bool { return c.State == CacheAwareOn || c.State == CacheAwareBuiltIn }

const (
	// CacheAwareFile is the switch: a bool (kernel/sched/debug.c).
	CacheAwareFile = schedDebug + "/llc_balancing/enabled"
	schedDebug     = "sys/kernel/debug/sched"
	schedFeatures  = schedDebug + "/features"
	kernelRelease  = "proc/sys/kernel/osrelease"
	kernelConfig   = "proc/config.gz"

	// maxConfig bounds a kernel's configuration, bytes: distributions have 0.3 MB.
	maxConfig = 4 << 20
	// maxFeatures bounds the list of features of the scheduler, bytes: it is a line of some 500.
	maxFeatures = 1 << 16
)

// firstCacheAware is the first mainline version that has cache-aware scheduling.
var firstCacheAware = [2]int{7, 2}

// ReadCacheAware reads the state from the tree of a machine: debugfs, then what the kernel was built
// with, then its version.
func ReadCacheAware(fsys fs.FS) CacheAware {
	if c := CacheAwareNow(fsys); c.State != CacheAwareUnknown {
		return c
	}
	return CacheAwareBuilt(fsys)
}

// CacheAwareNow reads the state from debugfs, which only root can read. It is unknown without debugfs.
func CacheAwareNow(fsys fs.FS) CacheAware {
	switch head(fsys, CacheAwareFile, maxFeatures) {
	case "1", "Y", "y":
		return CacheAware{CacheAwareOn, "/" + CacheAwareFile}
	case "0", "N", "n":
		return CacheAware{CacheAwareOff, "/" + CacheAwareFile}
	}
	// Kernels with the patches before they were merged have it as a feature.
	features := strings.Fields(head(fsys, schedFeatures, maxFeatures))
	for _, f := range features {
		switch f {
		case "SCHED_CACHE":
			return CacheAware{CacheAwareOn, "/" + schedFeatures}
		case "NO_SCHED_CACHE":
			return CacheAware{CacheAwareOff, "/" + schedFeatures}
		}
	}
	if len(features) == 0 {
		return CacheAware{State: CacheAwareUnknown}
	}
	return CacheAware{CacheAwareNone, "/" + schedDebug}
}

// CacheAwareBuilt reads the kernel's configuration and version. Neither changes while it runs.
func CacheAwareBuilt(fsys fs.FS) CacheAware {
	release := head(fsys, kernelRelease, 256)
	for _, name := range configFiles(release) {
		value, found := configOption(fsys, name, "CONFIG_SCHED_CACHE")
		switch {
		case found && value == "y":
			return CacheAware{CacheAwareBuiltIn, "/" + name}
		case found:
			return CacheAware{CacheAwareNone, "/" + name}
		}
	}
	major, minor, ok := versionOf(release)
	if !ok {
		return CacheAware{State: CacheAwareUnknown}
	}
	since := firstCacheAware
	if major < since[0] || (major == since[0] && minor < since[1]) {
		return CacheAware{CacheAwareNone, "Linux " + strconv.Itoa(major) + "." + strconv.Itoa(minor)}
	}
	return CacheAware{State: CacheAwareUnknown}
}

// configFiles are the places of a kernel's configuration: its own (CONFIG_IKCONFIG_PROC), and those of
// distributions.
func configFiles(release string) []string {
	names := []string{kernelConfig}
	if release == "" || strings.ContainsAny(release, "/\x00 ") || release == "." || release == ".." {
		return names
	}
	return append(names, "boot/config-"+release, "lib/modules/"+release+"/config", "usr/lib/modules/"+release+"/config")
}

// configOption returns the value of an option in a configuration; "" where the option is not set. found
// is false when the configuration cannot be read to its end.
func configOption(fsys fs.FS, name, option string) (value string, found bool) {
	f, err := fsys.Open(name)
	if err != nil {
		return "", false
	}
	defer f.Close()
	var r io.Reader = f
	if strings.HasSuffix(name, ".gz") {
		if r, err = gzip.NewReader(f); err != nil {
			return "", false
		}
	}
	limited := &io.LimitedReader{R: r, N: maxConfig}
	lines := bufio.NewScanner(limited)
	options := 0
	for lines.Scan() {
		line := lines.Text()
		if v, ok := strings.CutPrefix(line, option+"="); ok {
			return strings.TrimSpace(v), true
		}
		if strings.HasPrefix(line, "CONFIG_") {
			options++
		}
	}
	whole := lines.Err() == nil && limited.N > 0
	return "", whole && options > 0
}

// versionOf is the version in a kernel's release, such as 7.3 in "7.3.4-cloud-amd64".
func versionOf(release string) (major, minor int, ok bool) {
	first, rest, _ := strings.Cut(release, ".")
	end := strings.IndexFunc(rest, func(r rune) bool { return r < '0' || r > '9' })
	if end >= 0 {
		rest = rest[:end]
	}
	major, err := strconv.Atoi(first)
	if err != nil || major < 0 {
		return 0, 0, false
	}
	minor, err = strconv.Atoi(rest)
	if err != nil || minor < 0 {
		return 0, 0, false
	}
	return major, minor, true
}

// head is the trimmed text of a file up to a number of bytes, "" when it cannot be read.
func head(fsys fs.FS, name string, most int64) string {
	f, err := fsys.Open(name)
	if err != nil {
		return ""
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, most))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// SplitCaches reports whether last-level caches divide some node (CachesOn).
func (h *Host) SplitCaches() bool {
	return !h.CachesOn(h.AllNodes()).Empty()
}
