//go:build linux

package main

import (
	"bufio"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"time"
)

type options struct {
	slot, mib, threads int
	place              string
	static             bool
	unbind             bool
	huge               bool
	whole              bool
	hot                int
	wait               bool
	burst              int
	sleep              time.Duration
	share              string
	with               string
	spell              time.Duration
}

func main() {
	var o options
	flag.IntVar(&o.slot, "slot", 0, "slot, which fixes the buffer's address")
	flag.IntVar(&o.mib, "mib", 16, "size of the buffer")
	flag.IntVar(&o.threads, "threads", 1, "threads that walk")
	flag.StringVar(&o.place, "place", "local", "interleave, bind:NODE or local")
	flag.BoolVar(&o.static, "static", false, "set the policy with MPOL_F_STATIC_NODES")
	flag.BoolVar(&o.unbind, "unbind", false, "take the policy off after filling")
	flag.BoolVar(&o.huge, "huge", false, "ask for transparent huge pages")
	flag.BoolVar(&o.whole, "whole", false,
		"every thread walks over the whole buffer, page after page in an order of its own")
	flag.IntVar(&o.hot, "hot", 0,
		"with --whole: after each page, visit so many pages of the hot part, a small one that all threads share")
	flag.BoolVar(&o.wait, "wait", false, "touch no page of the buffer before the line \"fill\" is read")
	flag.IntVar(&o.burst, "burst", 512, "pages between two rests")
	flag.StringVar(&o.share, "share", "",
		"map this `file` in the place of a buffer of its own: walkers with the same slot and file exchange lines")
	flag.StringVar(&o.with, "with", "", "start further walkers as children, alike but with these `threads`: 1,1")
	flag.DurationVar(&o.spell, "spell", 0, "with --whole: CPU time between two rests, in the place of --burst")
	flag.DurationVar(&o.sleep, "sleep", 10*time.Millisecond, "length of a rest")
	flag.Parse()
	if err := run(o, os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "walker:", err)
		os.Exit(1)
	}
}

func run(o options, in io.Reader, out io.Writer) error {
	// Rests hold on to their P (see rest), so each thread needs one of its own.
	// There is next to nothing to collect, and a collection would wait for rests.
	runtime.GOMAXPROCS(o.threads + 2)
	debug.SetGCPercent(-1)

	b, err := mapBuffer(o.slot, o.mib, o.huge, o.share)
	if err != nil {
		return err
	}
	nodes, err := memoryNodes()
	if err != nil {
		return err
	}
	p, err := parsePlace(o.place, nodes)
	if err != nil {
		return err
	}
	if err := b.setPolicy(p, o.static); err != nil {
		return err
	}
	lines := bufio.NewScanner(in)
	if o.wait {
		fmt.Fprintln(out, "waiting")
		lines.Scan()
		if lines.Text() != "fill" {
			return fmt.Errorf("command %q: want \"fill\"", lines.Text())
		}
	}
	c := newCrew(b.words, o)
	if err := c.fill(); err != nil {
		return err
	}
	if o.unbind {
		if err := b.setPolicy(policy{mode: mpolDefault}, false); err != nil {
			return err
		}
	}
	if o.with != "" {
		if err := startChildren(strings.Split(o.with, ",")); err != nil {
			return err
		}
	}
	c.resume()
	fmt.Fprintln(out, "ready")
	return obey(c, lines, out)
}

// obey answers commands until the input ends.
func obey(c *crew, lines *bufio.Scanner, out io.Writer) error {
	var d devices
	for lines.Scan() {
		var passes int
		switch s := lines.Text(); {
		case s == "pause":
			c.pause()
			fmt.Fprintln(out, "paused")
		case s == "go":
			c.resume()
			fmt.Fprintln(out, "going")
		case strings.HasPrefix(s, "open "):
			if err := d.open(strings.TrimPrefix(s, "open ")); err != nil {
				return err
			}
			fmt.Fprintln(out, "opened")
		case s == "bursts":
			fmt.Fprintln(out, "bursts", c.bursts.Load())
		default:
			if n, err := fmt.Sscanf(s, "walk %d", &passes); n != 1 || err != nil {
				return fmt.Errorf("command %q: unknown", s)
			}
			c.walk(passes)
			fmt.Fprintln(out, "walked", passes)
		}
	}
	return lines.Err()
}
