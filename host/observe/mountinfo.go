package observe

import (
	"bytes"
	"path"
)

// mount is where a cgroup v2 hierarchy is mounted.
type mount struct {
	root  string // the cgroup that is seen at point, "/" for the whole hierarchy
	point string
}

// parseMountinfo reads the cgroup2 mounts of proc_pid_mountinfo(5).
func parseMountinfo(b []byte) []mount {
	var out []mount
	for len(b) > 0 {
		line, rest, _ := bytes.Cut(b, []byte{'\n'})
		b = rest
		// ID parent major:minor root point options [fields…] - type source options
		fields := bytes.Fields(line)
		for i := 6; i+1 < len(fields); i++ {
			if string(fields[i]) != "-" {
				continue
			}
			if string(fields[i+1]) == "cgroup2" {
				out = append(out, mount{unescape(fields[3]), unescape(fields[4])})
			}
			break
		}
	}
	return out
}

// unescape undoes the octal escapes of mountinfo (space, tab, newline, backslash).
func unescape(b []byte) string {
	var out []byte
	for i := 0; i < len(b); i++ {
		if b[i] == '\\' && i+3 < len(b) && octal(b[i+1]) && octal(b[i+2]) && octal(b[i+3]) {
			out = append(out, (b[i+1]-'0')<<6|(b[i+2]-'0')<<3|(b[i+3]-'0'))
			i += 3
			continue
		}
		out = append(out, b[i])
	}
	return string(out)
}

func octal(c byte) bool { return c >= '0' && c <= '7' }

// bestMount is the mount to look at: the whole hierarchy before a part of it, then
// the first. The path is relative, as fs.FS wants it.
func bestMount(mounts []mount) (string, bool) {
	best := -1
	for i, m := range mounts {
		if best < 0 || (m.root == "/" && mounts[best].root != "/") {
			best = i
		}
	}
	if best < 0 {
		return "", false
	}
	p := path.Clean("/" + mounts[best].point)[1:]
	return p, p != ""
}
