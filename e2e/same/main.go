//go:build linux

package main

import (
	"fmt"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"github.com/homenode/homenode/e2e/marks"
)

const (
	cpus    = 4
	threads = 4
	heap    = 16 << 20 // bytes, 32 times what both caches hold
	unit    = 2 << 20  // of the addresses that marks carry
	piece   = 64 << 10 // bytes that a thread visits at a time
	line    = 64       // bytes between two visits
	passes  = 3        // over the heap; the first one touches its pages
)

func main() {
	wire, err := setUp()
	if err == nil {
		fmt.Fprintf(wire, "UP 0\nSTART same.counts\n")
		err = count(wire)
	}
	outcome := "ok"
	if err != nil {
		outcome = "FAIL"
		fmt.Println("same:", err)
	}
	fmt.Fprintf(wire, "TEST same.counts %s 0 %d threads over %d MiB, %d times\nEND\n", outcome, threads, heap>>20,
		passes)
	syscall.Reboot(syscall.LINUX_REBOOT_CMD_POWER_OFF)
	select {} // a first process that ends is a panic of the kernel
}

// setUp opens the second serial line, on which records go to the rig.
func setUp() (*os.File, error) {
	err := syscall.Mount("devtmpfs", "/dev", "devtmpfs", 0, "")
	if err != nil && err != syscall.EBUSY {
		return nil, fmt.Errorf("mount /dev: %w", err)
	}
	return os.OpenFile("/dev/ttyS1", os.O_WRONLY, 0)
}

// count has all threads visit the heap, and counts each pass by itself: a mark is the pass, from 1 on.
func count(wire *os.File) error {
	err := whereTurnsAre()
	if err != nil {
		return err
	}
	memory, err := syscall.Mmap(-1, 0, heap+unit, syscall.PROT_READ|syscall.PROT_WRITE,
		syscall.MAP_PRIVATE|syscall.MAP_ANON)
	if err != nil {
		return fmt.Errorf("map the heap: %w", err)
	}
	start := uintptr(unsafe.Pointer(&memory[0]))
	skip := (unit - start%unit) % unit
	memory = memory[skip : skip+heap]
	err = syscall.Madvise(memory, syscall.MADV_NOHUGEPAGE)
	if err != nil {
		return fmt.Errorf("madvise the heap: %w", err)
	}
	marks.From(uint32((start + skip) / unit))
	marks.To(uint32((start + skip + heap) / unit))
	for pass := range passes {
		marks.Write(0)
		visit(memory)
		marks.Write(uint32(pass + 1))
		fmt.Fprintf(wire, "MARK %d 1 pass %d\n", pass+1, pass+1)
	}
	return nil
}

// visit has each thread take one piece of memory after the other, as soon as it comes to it.
func visit(memory []byte) {
	var next atomic.Int64
	var all sync.WaitGroup
	for range threads {
		all.Go(func() {
			runtime.LockOSThread() // and never unlocked: the thread ends with the function
			for {
				at := int(next.Add(1)-1) * piece
				if at >= len(memory) {
					return
				}
				for i := at; i < at+piece; i += line {
					memory[i]++
				}
				if at/piece%8 == 7 {
					time.Sleep(time.Millisecond)
				}
			}
		})
	}
	all.Wait()
}

// whereTurnsAre tells the plugin which CPU is which.
func whereTurnsAre() error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for cpu := range cpus {
		err := runOn(1 << cpu)
		if err != nil {
			return err
		}
		marks.Here(uint32(cpu))
	}
	return runOn(1<<cpus - 1)
}

// runOn has the calling thread run on these CPUs.
func runOn(mask uint64) error {
	_, _, errno := syscall.RawSyscall(syscall.SYS_SCHED_SETAFFINITY, 0, unsafe.Sizeof(mask),
		uintptr(unsafe.Pointer(&mask)))
	if errno != 0 {
		return fmt.Errorf("sched_setaffinity to %#x: %w", mask, errno)
	}
	return nil
}
