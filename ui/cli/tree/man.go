package tree

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/homenode/homenode/ui/cli"
)

// Command is the whole command tree with a system's defaults, for who writes
// manual pages of it.
func Command() *cobra.Command {
	return rootCommand(&cli.Env{Getenv: func(string) string { return "" },
		DefaultSocket: "/run/homenode/homenode.sock", DefaultState: "/var/lib/homenode"})
}

// Section is a part of a manual page that is not in --help: a title, and names with what they are.
type Section struct {
	Title string
	Rows  [][2]string
}

// Sections is what a manual page says of a command beside its help: exit statuses, files,
// environment, and signals where the command does something with them.
func Sections(c *cobra.Command) []Section {
	path := strings.TrimPrefix(strings.TrimPrefix(c.CommandPath(), "homenode"), " ")
	root := path == ""
	first := path
	_ = 0
	if i := strings.IndexByte(path, ' '); i >= 0 {
		first = path[:i]
	}
	status := Section{"EXIT STATUS", [][2]string{
		{"0", "Done."},
		{"1", "The answer is no, or a part was not done; standard error has the reason."},
		{"2", "Bad input: an option, an argument or a file."},
		{"3", "Not permitted, or not possible on this machine."},
	}}
	switch first {
	case "doctor":
		status.Rows[1][1] = "A warning or a defect was found."
		status.Rows[3][1] = "It could not be decided, is not permitted or not possible on this machine."
	case "run":
		status.Rows = append(status.Rows[1:], [2]string{"126", "The command cannot be run."},
			[2]string{"127", "The command was not found."},
			[2]string{"others", "That of the command, which takes the place of homenode."})
	}
	if path == "host report" {
		status.Rows[1][1] = "Something is off."
	}
	out := []Section{status}
	var files Section
	if root || c.Flags().Lookup("state-dir") != nil || first == "daemon" {
		files.Rows = append(files.Rows,
			[2]string{"/var/lib/homenode",
				"Journal, homes, history and measurements of root's daemon; $XDG_STATE_HOME/homenode of a user's own."})
	}
	if root || c.Flags().Lookup("socket") != nil {
		files.Rows = append(files.Rows,
			[2]string{"/run/homenode/homenode.sock",
				"Where root's daemon answers; $XDG_RUNTIME_DIR/homenode/homenode.sock of a user's own."})
	}
	if root || first == "daemon" || first == "config" || first == "host" || first == "vm" {
		files.Rows = append(files.Rows, [2]string{"/etc/homenode.yaml, /etc/homenode.d/*.yaml",
			"Configuration and its drop-ins, read where they are there."})
	}
	if path == "vm hook" {
		files.Rows = append(files.Rows,
			[2]string{"/etc/libvirt/hooks/qemu.d", "Where --install puts the script that libvirt calls."})
	}
	if files.Rows != nil {
		files.Title = "FILES"
		out = append(out, files)
	}
	environment := Section{"ENVIRONMENT", [][2]string{
		{"COLUMNS",
			"How wide tables and text may be. Without it that is the width of the terminal; in a pipe there is " +
				"no limit."},
		{"NO_COLOR", "Any value: no colours. So it is in a pipe, and with TERM=dumb."},
		{"LC_ALL, LC_CTYPE, LANG", "In a locale that is not UTF-8 everything is ASCII, documents aside."},
	}}
	if root || first == "daemon" || files.Rows != nil {
		environment.Rows = append(environment.Rows,
			[2]string{"XDG_STATE_HOME, XDG_RUNTIME_DIR", "Folders of a user who is not root."})
	}
	if first == "vm" || first == "daemon" {
		environment.Rows = append(environment.Rows,
			[2]string{"LIBVIRT_DEFAULT_URI", "Which libvirt is asked: qemu:///system unless it says otherwise."})
	}
	out = append(out, environment)
	if signals := signalsOf(first, c); signals != nil {
		out = append(out, Section{"SIGNALS", signals})
	}
	return out
}

// signalsOf is what a command does with signals, where that is more than to end.
func signalsOf(first string, c *cobra.Command) [][2]string {
	const end = "SIGINT, SIGTERM"
	switch first {
	case "daemon":
		return [][2]string{{end,
			"The daemon finishes what it is writing, leaves every home as it is, and ends. homenode undo --all puts " +
				"everything back."},
			{"SIGHUP",
				"The daemon reads its configuration again. A wrong configuration changes nothing; status and the log " +
					"show the error. If the terminal of the daemon is gone, it ends instead."}}
	case "run":
		return [][2]string{{"all", "The command has taken the place of homenode and gets them itself."}}
	case "probe", "doctor":
		if c.Flags().Lookup("budget") != nil {
			return [][2]string{{end,
				"The measurement ends; what there is by then is shown and not kept, and the exit status of probe is 1."}}
		}
	case "undo", "resume", "move":
		return [][2]string{{end, "The command ends; what the daemon has begun it finishes."}}
	case "sim", "replay":
		return [][2]string{{end, "It stops before the end, without a result."}}
	}
	return nil
}
