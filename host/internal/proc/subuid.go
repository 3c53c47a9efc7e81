package proc

import (
	"bytes"
	"io"
	"io/fs"
	"time"

	"github.com/homenode/homenode/core/workload"
)

// subordinates is which UIDs subuid(5) gives to which users, as /etc/subuid and /etc/passwd have
// it. Ranges that only a name service knows (nsswitch.conf, subid) are not in it.
type subordinates struct {
	ranges   []uidRange
	accounts map[int]bool // UIDs that /etc/passwd has: never another user's
	checked  time.Time
	as       [2]version // of /etc/subuid and /etc/passwd, as they were read
}

// uidRange is UIDs first to last of a user.
type uidRange struct {
	first, last int
	owner       workload.Owner
}

// version tells whether a file has changed.
type version struct {
	size  int64
	mtime time.Time
}

const (
	// subuidEvery is how often the files are asked whether they have changed: useradd(8) is not
	// followed by a connection within the same second.
	subuidEvery = 10 * time.Second
	// mostAccounts bounds the files, bytes: some 50,000 users.
	mostAccounts = 4 << 20
)

// refresh reads the files again when they have changed.
func (s *subordinates) refresh(root fs.FS) {
	if now := time.Now(); now.Sub(s.checked) >= subuidEvery {
		s.checked = now
	} else {
		return
	}
	as := [2]version{versionOf(root, "etc/subuid"), versionOf(root, "etc/passwd")}
	if as == s.as {
		return
	}
	s.as = as
	users := parsePasswd(readSome(root, "etc/passwd"))
	s.accounts = make(map[int]bool, len(users))
	for _, uid := range users {
		s.accounts[uid] = true
	}
	s.ranges = parseSubuid(readSome(root, "etc/subuid"), users)
}

func versionOf(root fs.FS, name string) version {
	there, err := fs.Stat(root, name)
	if err != nil {
		return version{size: -1}
	}
	return version{there.Size(), there.ModTime()}
}

// readSome reads the beginning of a file; nil when it cannot.
func readSome(root fs.FS, name string) []byte {
	f, err := root.Open(name)
	if err != nil {
		return nil
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, mostAccounts))
	if err != nil {
		return nil
	}
	return b
}

// holder returns the owner of the range that has a UID.
func (s *subordinates) holder(uid int) (workload.Owner, bool) {
	if s.accounts[uid] {
		return workload.SystemOwner, false
	}
	for _, r := range s.ranges {
		if uid >= r.first && uid <= r.last {
			return r.owner, true
		}
	}
	return workload.SystemOwner, false
}

// parsePasswd reads passwd(5): the UIDs by name.
func parsePasswd(b []byte) map[string]int {
	users := map[string]int{}
	for line := range bytes.Lines(b) {
		f := bytes.Split(line, []byte{':'})
		if len(f) < 3 {
			continue
		}
		if uid, ok := Number(f[2]); ok && uid < 1<<32 {
			users[string(f[0])] = int(uid)
		}
	}
	return users
}

// parseSubuid reads subuid(5), lines of NAME:FIRST:COUNT where NAME may be a UID. The range of a
// user of a service, such as Docker's dockremap, and of an unknown name is one party of its own:
// the system does not answer for the processes in it.
func parseSubuid(b []byte, users map[string]int) []uidRange {
	var out []uidRange
	for line := range bytes.Lines(b) {
		f := bytes.Split(bytes.TrimSpace(line), []byte{':'})
		if len(f) != 3 {
			continue
		}
		first, isFirst := Number(f[1])
		count, isCount := Number(f[2])
		if !isFirst || !isCount || first == 0 || count == 0 || first >= 1<<32 || count >= 1<<32 {
			continue
		}
		uid, known := users[string(f[0])]
		if n, ok := Number(f[0]); ok && !known && n < 1<<32 {
			uid, known = int(n), true
		}
		owner := workload.UserOwner(int(first))
		if known && workload.Ordinary(uid) {
			owner = workload.UserOwner(uid)
		}
		out = append(out, uidRange{int(first), int(first + count - 1), owner})
	}
	return out
}
