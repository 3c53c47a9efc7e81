//go:build linux

package main

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"github.com/homenode/homenode/e2e/suite"
)

const wordsPerPage = suite.PageSize / 8

// Orders that are not a number of passes.
const (
	forever = -1 // walk until told to stop
	fill    = -2 // allocate the part's pages, under the policy and from the CPU of the moment
)

const madvPopulateWrite = 23 // Linux 5.14, include/uapi/asm-generic/mman-common.h

// crew is the threads of a walker. Its methods are called from one goroutine.
type crew struct {
	order   []chan int // passes to walk
	resting sync.WaitGroup
	going   bool
	stop    atomic.Bool
	bursts  atomic.Int64
	failed  atomic.Value // error of a fill
}

func newCrew(words []uint64, o options) *crew {
	c := &crew{order: make([]chan int, o.threads)}
	threads := o.threads
	pages := len(words) / wordsPerPage
	for i := range c.order {
		c.order[i] = make(chan int)
		part := words[pages*i/threads*wordsPerPage : pages*(i+1)/threads*wordsPerPage]
		pass := func() { c.pass(part, o.burst*wordsPerPage, o.sleep) }
		if o.whole {
			pass = func() { c.wander(words, i*pages/threads, o.hot, o.burst, o.sleep) }
		}
		if o.whole && o.spell > 0 {
			pass = func() { c.exchange(words, i*pages/threads, o.spell, o.sleep) }
		}
		go c.member(c.order[i], part, pass)
	}
	return c
}

func (c *crew) start(passes int) {
	c.resting.Add(len(c.order))
	for _, o := range c.order {
		o <- passes
	}
}

func (c *crew) fill() error {
	c.start(fill)
	c.resting.Wait()
	err, _ := c.failed.Load().(error)
	return err
}

// walk makes every thread walk exactly so many passes and waits for them.
func (c *crew) walk(passes int) {
	c.pause()
	c.stop.Store(false)
	c.start(passes)
	c.resting.Wait()
}

func (c *crew) resume() {
	if c.going {
		return
	}
	c.stop.Store(false)
	c.start(forever)
	c.going = true
}

func (c *crew) pause() {
	if !c.going {
		return
	}
	c.stop.Store(true)
	c.resting.Wait()
	c.going = false
}

// member is one thread's life.
func (c *crew) member(order <-chan int, part []uint64, pass func()) {
	runtime.LockOSThread()
	for passes := range order {
		if passes == fill {
			if err := populate(part); err != nil {
				c.failed.Store(err)
			}
			c.resting.Done()
			continue
		}
		for n := 0; n != passes && !c.stop.Load(); n++ {
			pass()
		}
		c.resting.Done()
	}
}

func (c *crew) pass(part []uint64, burst int, sleep time.Duration) {
	for len(part) > 0 && !c.stop.Load() {
		n := min(burst, len(part))
		walk(part[:n])
		part = part[n:]
		c.bursts.Add(1)
		rest(sleep)
	}
}

// wander visits every page once, from one on in steps that lead through all of them: a
// prime that divides no number of pages here. After each it visits so many pages of the hot
// part, which a cache may hold.
func (c *crew) wander(words []uint64, from, hot, burst int, sleep time.Duration) {
	const step = 7919
	pages := len(words) / wordsPerPage
	hotPages := max(1, pages/suite.HotPart)
	for i := 0; i < pages && !c.stop.Load(); i++ {
		page := (from + i*step) % pages
		walk(words[page*wordsPerPage:][:wordsPerPage])
		for k := range hot {
			page := (from + (i*hot+k)*step) % hotPages
			walk(words[page*wordsPerPage:][:wordsPerPage])
		}
		if (i+1)%burst == 0 {
			c.bursts.Add(1)
			rest(sleep)
		}
	}
}

// exchange visits every page again and again until the thread has had a spell of CPU time, then rests. So
// it asks for as much CPU time whether accesses are counted, which takes longer, or not.
func (c *crew) exchange(words []uint64, from int, spell, sleep time.Duration) {
	pages := len(words) / wordsPerPage
	end := threadTime() + spell
	for threadTime() < end && !c.stop.Load() {
		for i := range pages {
			page := (from + i) % pages
			walk(words[page*wordsPerPage:][:wordsPerPage])
		}
	}
	c.bursts.Add(1)
	rest(sleep)
}

// threadTime is the CPU time of the calling thread.
func threadTime() time.Duration {
	const threadCPU = 3 // CLOCK_THREAD_CPUTIME_ID, include/uapi/linux/time.h
	var t syscall.Timespec
	syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, threadCPU, uintptr(unsafe.Pointer(&t)), 0)
	return time.Duration(t.Nano())
}

func populate(part []uint64) error {
	_, _, e := syscall.Syscall(syscall.SYS_MADVISE, uintptr(unsafe.Pointer(&part[0])), uintptr(len(part)*8),
		madvPopulateWrite)
	if e != 0 {
		return fmt.Errorf("fill %d MiB: %w", len(part)*8>>20, e)
	}
	return nil
}

// walk reads and writes one word in each line it visits: exactly one load and
// one store, which is what the counts are held against.
//
//go:noinline
func walk(part []uint64) {
	for i := 0; i < len(part); i += wordsPerPage / suite.LinesPerPage {
		part[i] = part[i]*3 + 1
	}
}

// rest sleeps in the kernel without telling the Go scheduler, which would else
// wake a second thread to hand the P on, and move the walkers' threads about.
func rest(d time.Duration) {
	if d <= 0 {
		return
	}
	t := syscall.NsecToTimespec(int64(d))
	syscall.RawSyscall(syscall.SYS_NANOSLEEP, uintptr(unsafe.Pointer(&t)), 0, 0)
}
