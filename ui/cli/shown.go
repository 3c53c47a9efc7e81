package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"github.com/homenode/homenode/api"
	"github.com/homenode/homenode/core/workload"
	"github.com/homenode/homenode/ui/view"
)

// Label is the ID, with the name where the ID does not tell it.
func Label(x api.Workload) string {
	if strings.HasPrefix(string(x.ID), "pid:") && x.Name != "" {
		return string(x.ID) + " " + x.Name
	}
	if strings.HasPrefix(x.Name, string(x.ID)+"/") { // the pod and what is in it
		return x.Name
	}
	for part := range strings.SplitSeq(string(x.ID), "/") { // an ID of 64 digits tells nobody which it is
		if id := workload.ContainerID(part); id != "" && x.Name != "" && !strings.Contains(x.Name, id[:12]) {
			return x.Name
		}
	}
	return string(x.ID)
}

func Percent(share *float64) string {
	if share == nil {
		return "-"
	}
	return fmt.Sprintf("%.1f %%", *share*100)
}

func OrDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// Listed is words in a list, as flags and errors name them.
func Listed[T ~string](all []T) string {
	out := make([]string, len(all))
	for i := range all {
		out[i] = string(all[i])
	}
	return strings.Join(out, ", ")
}

// HostName is what this machine is called.
func HostName(root fs.FS) string {
	text, err := fs.ReadFile(root, "proc/sys/kernel/hostname")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}

// PrintJSON writes one indented JSON document. What a terminal would take for a command
// is escaped as JSON does; that is the same document.
func PrintJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(view.JSON(view.Raw(w)))
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

func OneLine(s string) string {
	return strings.Join(strings.Fields(s), " ")
}
