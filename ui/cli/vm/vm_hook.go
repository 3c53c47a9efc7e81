package vm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/homenode/homenode/api"
	"github.com/homenode/homenode/core/guest"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
	"github.com/homenode/homenode/ui/cli"
	"github.com/homenode/homenode/ui/view"
)

// hookFile is the hook below libvirt's folder of hooks: a name of its own, so that a
// hook of somebody else stays.
const hookFile = "qemu.d/homenode"

// hookMark is in the hook that homenode wrote, and in no other.
const hookMark = "# Written by homenode vm hook --install"

// hookScript hands on to homenode what may be changed, and hands back what came in when
// homenode fails, in whatever way.
const hookScript = `#!/bin/sh
` + hookMark + `; homenode vm hook --uninstall takes it away.
# libvirt waits for it (https://libvirt.org/hooks.html): it never fails, and gives back
# what it was given when homenode cannot do better within two seconds.
case "$2/$3" in
migrate/begin | restore/begin)
	was=$(cat)
	now=$(printf '%%s\n' "$was" | timeout -s KILL 2 '%s' vm hook "$@") && [ -n "$now" ] || now=$was
	printf '%%s\n' "$now"
	;;
esac
exit 0
`

// hookWithin bounds what the hook waits for the daemon: a migration waits for it.
const hookWithin = 1500 * time.Millisecond

func vmHookCommand(e *cli.Env) *cobra.Command {
	var install, uninstall, dryRun bool
	var dir string
	c := &cobra.Command{
		Use:   "hook [GUEST OPERATION SUBOPERATION EXTRA]",
		Short: "Place guests that come from another host, as a hook of libvirt",
		Long: `The hook that libvirt calls when a guest arrives from another host or is restored
from a file (/etc/libvirt/hooks). It reads the domain XML, asks the daemon for a
home on this host, and writes the XML with that home. It changes only guests with
homenode's mark. Without a daemon, or after any other failure, it writes the XML
unchanged and exits with 0, so it never prevents a guest from running.

--install puts a script into qemu.d of libvirt's folder of hooks that calls it;
libvirt (6.5 or later) finds it when its daemon starts the next time.
--uninstall takes it away.`,
		Example: "  homenode vm hook --install --dry-run\n  homenode vm hook --install\n  homenode vm hook web1 " +
			"migrate begin - < web1.xml",
		Args: func(c *cobra.Command, args []string) error {
			switch {
			case install || uninstall:
				return cobra.NoArgs(c, args)
			case dryRun:
				return cli.Usagef("--dry-run goes with --install or --uninstall")
			}
			return cobra.RangeArgs(2, 4)(c, args)
		},
		RunE: func(c *cobra.Command, args []string) error {
			file := filepath.Join(dir, hookFile)
			switch {
			case install:
				return installHook(e, file, dryRun)
			case uninstall:
				return uninstallHook(e, file, dryRun)
			}
			return hook(c, e, args)
		},
	}
	f := c.Flags()
	f.BoolVar(&install, "install", false, "put the script into libvirt's folder of hooks")
	f.BoolVar(&uninstall, "uninstall", false, "take it away")
	f.BoolVar(&dryRun, "dry-run", false, "with --install or --uninstall: change nothing, say what would be")
	f.StringVar(&dir, "hooks", "/etc/libvirt/hooks", "libvirt's `FOLDER` of hooks")
	cli.SocketFlag(c, e)
	c.MarkFlagsMutuallyExclusive("install", "uninstall")
	return c
}

// hook writes what it reads, with another home where there is one.
func hook(c *cobra.Command, e *cli.Env, args []string) error {
	done := e.Reading()
	text, err := io.ReadAll(io.LimitReader(e.Stdin, cli.MaxSpec+1))
	done()
	if err != nil {
		return err
	}
	changes := (args[1] == "migrate" || args[1] == "restore") && (len(args) < 3 || args[2] == "begin")
	if !changes { // libvirt takes nothing back
		return nil
	}
	out := text
	if len(text) > cli.MaxSpec {
		err = errors.New("its XML is too large to be read")
	} else {
		out, err = rehome(c, e, text)
	}
	if err != nil {
		fmt.Fprintf(e.Stderr, "homenode: guest %s comes as it is: %s\n", args[0], cli.OneLine(err.Error()))
		out = text
	}
	_, err = io.Copy(view.Raw(e.Stdout), io.MultiReader(bytes.NewReader(out), e.Stdin))
	return err
}

// rehome is the XML of a guest with its home on this host.
func rehome(c *cobra.Command, e *cli.Env, text []byte) ([]byte, error) {
	h, err := cli.TopologySource{}.Read(e)
	if err != nil {
		return nil, err
	}
	spec, emulator, ok, err := e.Libvirt.Wants(h, text)
	if err != nil || !ok {
		return text, err
	}
	if spec.Class == workload.Dedicated && emulator != guest.Share {
		return nil,
			fmt.Errorf("it is dedicated with its emulator apart (%s), which the hook does not place; homenode vm "+
				"move does for its next start", emulator)
	}
	d, err := cli.Dial(c, e)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	ctx, cancel := context.WithTimeout(cli.ContextOf(c), hookWithin)
	defer cancel()
	want := api.Want{Name: spec.Name, Class: spec.Class, CPUs: spec.CPUs, MemoryKiB: int64(spec.Memory),
		HugePageKiB: int64(spec.HugePage), SMT: spec.SMT,
		ID: spec.ID, HoldSeconds: comesWithin, Nodes: spec.Nodes}
	for i := range spec.Near {
		want.Near = append(want.Near, spec.Near[i].String())
	}
	home, err := d.Place(ctx, want)
	var not *api.Error
	// a daemon that has only started has not looked yet
	for errors.As(err, &not) && not.Code == api.Failed && ctx.Err() == nil {
		time.Sleep(100 * time.Millisecond)
		home, err = d.Place(ctx, want)
	}
	if err != nil {
		return nil, err
	}
	p := plan.Placement{Workload: spec.ID, Class: spec.Class, Importance: spec.Importance, VCPUs: spec.CPUs,
		Home: home.Nodes, CPUs: home.CPUs, Pins: home.Pins}
	for _, m := range home.Memory {
		p.Memory = append(p.Memory, workload.NodeMemory{Node: m.Node, KiB: topology.KiB(m.KiB)})
	}
	if p.CPUs.Empty() || p.Home.Empty() || (p.Class == workload.Dedicated && len(p.Pins) != p.VCPUs) {
		return nil, errors.New("the daemon's answer names no CPUs for it")
	}
	return e.Libvirt.Rehome(h, text, guest.Home{Placement: p, Emulator: p.CPUs})
}

// installHook writes the script; one that somebody else put there stays.
func installHook(e *cli.Env, file string, dryRun bool) error {
	if err := ourHook(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	program, err := os.Executable()
	if err != nil {
		return err
	}
	if strings.ContainsAny(program, "'\n") {
		return fmt.Errorf("%s: no path for a script", program)
	}
	if dryRun {
		_, err = fmt.Fprintf(e.Stdout,
			"would write %s; libvirt would find it when its daemon is started the next time\n", file)
		return err
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return cli.Forbiddenf("%w", err)
	}
	// Written beside and renamed: libvirt never runs half a script.
	fresh := filepath.Join(filepath.Dir(filepath.Dir(file)), ".homenode-hook")
	err = os.WriteFile(fresh, fmt.Appendf(nil, hookScript, program), 0o755)
	if err == nil {
		err = os.Rename(fresh, file)
	}
	if err != nil {
		return cli.Forbiddenf("%w", err)
	}
	_, err = fmt.Fprintf(e.Stdout, "wrote %s; libvirt finds it when its daemon is started the next time\n", file)
	return err
}

func uninstallHook(e *cli.Env, file string, dryRun bool) error {
	err := ourHook(file)
	if errors.Is(err, fs.ErrNotExist) {
		_, err = fmt.Fprintf(e.Stdout, "there is no %s\n", file)
		return err
	}
	if err != nil {
		return err
	}
	if dryRun {
		_, err = fmt.Fprintf(e.Stdout, "would remove %s\n", file)
		return err
	}
	if err := os.Remove(file); err != nil {
		return cli.Forbiddenf("%w", err)
	}
	_, err = fmt.Fprintf(e.Stdout, "removed %s\n", file)
	return err
}

// ourHook is nil for a hook that homenode wrote.
func ourHook(file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return cli.Forbiddenf("%w", err)
	}
	if !strings.Contains(string(text), hookMark) {
		return cli.Nof("%s is not homenode's; it is left as it is", file)
	}
	return nil
}

// comesWithin is how many seconds a home is kept for a guest that is told one: libvirt
// lists it as soon as its hook has ended, and one that does not come shall not hold CPUs
// for long.
const comesWithin = 60
