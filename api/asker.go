package api

import (
	"context"
	"fmt"
	"os"
	"os/user"
	"strconv"
	"strings"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/words"
)

type askerKey struct{}

// AskedBy is a context of what somebody asks.
func AskedBy(ctx context.Context, who *plan.Asker) context.Context {
	return context.WithValue(ctx, askerKey{}, who)
}

// Asker is who asks; nil where the context does not say.
func Asker(ctx context.Context) *plan.Asker {
	who, _ := ctx.Value(askerKey{}).(*plan.Asker)
	return who
}

// WhoIs is the user of a process, with the name that /etc/passwd has, and who had logged in
// before that: /proc/PID/loginuid, which pam_loginuid(8) sets and sudo and su leave as it is.
func WhoIs(uid, pid int) *plan.Asker {
	who := &plan.Asker{UID: uid, User: nameOf(uid)}
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/loginuid", pid))
	if err != nil {
		return who
	}
	const unset = 1<<32 - 1
	if login, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 32); err == nil && login != unset &&
		int(login) != uid {
		if who.Login = nameOf(int(login)); who.Login == "" {
			who.Login = fmt.Sprintf("user %d", login)
		}
	}
	return who
}

func nameOf(uid int) string {
	u, err := user.LookupId(strconv.Itoa(uid))
	if err != nil {
		return ""
	}
	return words.Printable(u.Username)
}
