package resctrl

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// schemata is what a group may have (resctrl.rst, "Schemata files"): by resource and domain, ways as
// a mask or bandwidth. Resources that homenode does not set are left out.
type schemata map[string]map[int]uint64

const bandwidth = "MB"

// caches is the names that the last-level cache has; two where code and data are apart (mount -o cdp).
var caches = []string{"L3", "L3CODE", "L3DATA"}

func isCache(name string) bool { return slices.Contains(caches, name) }

// parse reads a schemata file, or a value of one: lines with spaces between.
func parse(text string) (schemata, error) {
	out := schemata{}
	for _, line := range strings.Fields(text) {
		name, rest, ok := strings.Cut(line, ":")
		if !ok {
			return nil, fmt.Errorf("schemata: %q is no line of a resource", line)
		}
		if !isCache(name) && name != bandwidth {
			continue
		}
		if out[name] != nil {
			return nil, fmt.Errorf("schemata: %s is there twice", name)
		}
		out[name] = map[int]uint64{}
		for part := range strings.SplitSeq(rest, ";") {
			id, value, _ := strings.Cut(part, "=")
			base := 10
			if isCache(name) {
				base = 16
			}
			domain, err := strconv.ParseUint(id, 10, 31)
			v, bad := strconv.ParseUint(value, base, 64)
			if _, twice := out[name][int(domain)]; err != nil || bad != nil || twice {
				return nil, fmt.Errorf("schemata: %s: %q is no domain with its value", name, part)
			}
			out[name][int(domain)] = v
		}
	}
	return out, nil
}

// String is the value that the journal has: one line, resources and domains rising.
func (s schemata) String() string {
	var lines []string
	for _, name := range slices.Sorted(maps.Keys(s)) {
		var parts []string
		for _, domain := range slices.Sorted(maps.Keys(s[name])) {
			format := "%d=%d"
			if isCache(name) {
				format = "%d=%x"
			}
			parts = append(parts, fmt.Sprintf(format, domain, s[name][domain]))
		}
		lines = append(lines, name+":"+strings.Join(parts, ";"))
	}
	return strings.Join(lines, " ")
}

// agrees reports whether two say the same of each domain that both have: those of CPUs that went
// offline are not there.
func (s schemata) agrees(other schemata) bool {
	for name, domains := range s {
		if other[name] == nil {
			return false
		}
		for domain, v := range domains {
			if w, ok := other[name][domain]; ok && v != w {
				return false
			}
		}
	}
	return len(s) == len(other)
}

// limited returns s with bandwidth that is above another's lowered to it: a new group has the processor's maximum,
// which may be more than the default group has now.
func (s schemata) limited(most schemata) schemata {
	domains := maps.Clone(s[bandwidth])
	for domain, v := range domains {
		if w, ok := most[bandwidth][domain]; ok {
			domains[domain] = min(v, w)
		}
	}
	out := s.without(bandwidth)
	if domains != nil {
		out[bandwidth] = domains
	}
	return out
}

// without returns s without a resource.
func (s schemata) without(name string) schemata {
	out := maps.Clone(s)
	delete(out, name)
	return out
}

// mounted reads the options of resctrl out of a list of mounts (/proc/mounts); nil when it is not mounted there.
func mounted(mounts, at string) []string {
	for line := range strings.Lines(mounts) {
		if f := strings.Fields(line); len(f) >= 4 && f[1] == at && f[2] == "resctrl" {
			return strings.Split(f[3], ",")
		}
	}
	return nil
}
