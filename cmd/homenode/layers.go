package main

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"

	"github.com/homenode/homenode/config"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/host/observe/files"
	"github.com/homenode/homenode/ui/cli"
)

// layersOf reads the configuration file and its drop-ins. "" is the file of this machine, which need not be there.
func layersOf(file string) ([]config.Layer, error) {
	if file == "" {
		return config.Files(filepath.Join(machine, configFile), false)
	}
	return config.Files(file, true)
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
	c.Mode = cmp.Or(config.Mode(o.Mode), c.Mode)
	c.StateDir = cmp.Or(o.StateDir, c.StateDir)
	c.Socket = cmp.Or(o.Socket, c.Socket)
	c.Period = cmp.Or(o.Period, c.Period)
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
	here, err := topology.FromSysfs(files.Root(machine))
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
