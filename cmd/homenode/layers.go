package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/homenode/homenode/config"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/host/observe"
	"github.com/homenode/homenode/ui/cli"
)

// layersOf reads the configuration file and its drop-ins: of homenode.yaml those are homenode.d/*.yaml beside
// it, by name. "" is the file of this machine, which need not be there.
func layersOf(file string) ([]config.Layer, error) {
	named := file != ""
	if !named {
		file = filepath.Join(machine, configFile)
	}
	var layers []config.Layer
	read := func(file string, flags int, check func(*os.File) error) error {
		f, err := os.OpenFile(file, os.O_RDONLY|flags, 0)
		if err != nil {
			return err
		}
		defer f.Close()
		if err := check(f); err != nil {
			return err
		}
		l, err := config.ReadLayer(f, file)
		layers = append(layers, l)
		return err
	}
	if err := read(file, 0, func(*os.File) error { return nil }); err != nil && (named || !errors.Is(err, fs.ErrNotExist)) {
		return nil, err
	}
	folder := strings.TrimSuffix(file, filepath.Ext(file)) + ".d"
	entries, err := os.ReadDir(folder) // sorted
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return layers, nil
	}
	if err != nil {
		return nil, err
	}
	entries = slices.DeleteFunc(entries, func(e os.DirEntry) bool { // a hidden one is what an editor keeps beside a file
		return strings.HasPrefix(e.Name(), ".") || filepath.Ext(e.Name()) != ".yaml"
	})
	if len(entries) == 0 {
		return layers, nil
	}
	d, err := os.Open(folder)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	if err := trusted(d); err != nil {
		return nil, err
	}
	for _, e := range entries {
		// Not a pipe, for which a daemon would wait at each start and reload.
		if err := read(filepath.Join(folder, e.Name()), unix.O_NONBLOCK, trustedFile); err != nil {
			return nil, err
		}
	}
	return layers, nil
}

// trustedFile refuses what trusted does, and what is not a file.
func trustedFile(f *os.File) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%s is not a file; drop-ins are files", f.Name())
	}
	return trusted(f)
}

// trusted refuses a drop-in, or the folder of them, that somebody may have written other than root and whoever
// runs this.
func trusted(f *os.File) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return fmt.Errorf("%s: its owner is not known", f.Name())
	}
	if st.Uid != 0 && int(st.Uid) != os.Geteuid() {
		return fmt.Errorf("%s belongs to user %d: drop-ins and their folder must belong to root or to who runs homenode; chown it", f.Name(), st.Uid)
	}
	if info.Mode().Perm()&0o022 != 0 {
		return fmt.Errorf("%s can be written by others (mode %#o): chmod go-w %s", f.Name(), info.Mode().Perm(), f.Name())
	}
	return nil
}

// configOf is defaults, then the files, then the command line.
func configOf(o cli.DaemonOptions) (config.Config, error) {
	layers, err := layersOf(o.Config)
	if err != nil {
		return userConfig(), err
	}
	return configFrom(o, layers)
}

// configFrom is defaults, then layers, then the command line.
func configFrom(o cli.DaemonOptions, layers []config.Layer) (config.Config, error) {
	c := userConfig()
	if len(layers) > 0 {
		var err error
		if c, err = config.Merge(c, layers...); err != nil {
			return c, err
		}
	}
	if o.Mode != "" {
		c.Mode = config.Mode(o.Mode)
	}
	if o.StateDir != "" {
		c.StateDir = o.StateDir
	}
	if o.Socket != "" {
		c.Socket = o.Socket
	}
	if o.Period != 0 {
		c.Period = o.Period
	}
	if o.Listen != "" {
		c.API.Listen = o.Listen
		if _, err := c.API.Address(); err != nil { // of the command line, not of a file
			return c, fmt.Errorf("--%w", err)
		}
	}
	return c, c.Validate()
}

// suits checks a configuration against this machine, and the files that it names: what a daemon would find
// wrong with it before it begins. It opens nothing for writing.
func suits(c *config.Config) (odd []string, err error) {
	if c.SocketGroup != "" {
		if _, err := groupID(c.SocketGroup); err != nil {
			return nil, c.Located(err)
		}
	}
	if err := blockDevices(c); err != nil {
		return nil, c.Located(err)
	}
	if c.API.Token != "" {
		if _, err := readToken(c.API.Token); err != nil {
			return nil, c.Located(fmt.Errorf("api.token: %w", err))
		}
	}
	if c.API.Cert != "" {
		if _, err := tlsOf(&c.API); err != nil {
			return nil, c.Located(err)
		}
	}
	here, err := topology.FromSysfs(observe.Root(machine))
	if err != nil {
		return nil, cli.Forbidden(err)
	}
	odd, err = c.Suits(here)
	return odd, c.Located(err)
}

// configuration is `homenode config`.
func configuration(file string) (cli.Configuration, error) {
	layers, err := layersOf(file)
	if err != nil {
		return cli.Configuration{}, cli.Usage(err)
	}
	c, err := configFrom(cli.DaemonOptions{}, layers)
	if err != nil {
		return cli.Configuration{}, cli.Usage(err)
	}
	var out cli.Configuration
	for _, l := range layers {
		out.Files = append(out.Files, l.Name)
	}
	for _, v := range c.Values() {
		out.Values = append(out.Values, cli.ConfigValue(v))
	}
	if out.Odd, err = suits(&c); err != nil {
		return cli.Configuration{}, cli.Usage(err)
	}
	return out, nil
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}
