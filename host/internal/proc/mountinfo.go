package proc

import "bytes"

// Mount is a line of mountinfo.
type Mount struct {
	ID     string // as fdinfo has it in mnt_id
	Device Device
	Root   string // what of the file system is seen at Point
	Point  string
	Type   string
}

// Device is the number of a block device or of what stands for one.
type Device struct{ Major, Minor uint32 }

// Mountinfo reads proc_pid_mountinfo(5).
func Mountinfo(b []byte) []Mount {
	var out []Mount
	for line := range bytes.Lines(b) {
		// ID parent major:minor root point options [fields…] - type source options
		fields := bytes.Fields(line)
		for i := 6; i+1 < len(fields); i++ {
			if string(fields[i]) != "-" {
				continue
			}
			m := Mount{ID: string(fields[0]), Root: unescape(fields[3]), Point: unescape(fields[4]),
				Type: string(fields[i+1])}
			major, minor, _ := bytes.Cut(fields[2], []byte{':'})
			x, ok1 := Number(major)
			y, ok2 := Number(minor)
			if ok1 && ok2 && x < 1<<32 && y < 1<<32 {
				m.Device = Device{uint32(x), uint32(y)}
			}
			out = append(out, m)
			break
		}
	}
	return out
}

// unescape undoes the octal escapes of mountinfo (space, tab, newline, backslash).
func unescape(b []byte) string {
	if bytes.IndexByte(b, '\\') < 0 {
		return string(b)
	}
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
