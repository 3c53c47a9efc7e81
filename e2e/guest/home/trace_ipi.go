//go:build linux

package home

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/homenode/homenode/e2e/guest/lab"
)

// interruptEvents are the kernel's tracepoints that tell what interrupts a CPU: those that are filtered by the CPU
// that sends, and those by the CPU that gets it (Documentation/trace/events.rst).
var interruptEvents = map[string]string{
	"ipi/ipi_send_cpu":                       "cpu == %d",
	"irq_vectors/local_timer_entry":          "CPU == %d",
	"irq_vectors/irq_work_entry":             "CPU == %d",
	"irq_vectors/call_function_entry":        "CPU == %d",
	"irq_vectors/call_function_single_entry": "CPU == %d",
	"irq_vectors/reschedule_entry":           "CPU == %d",
	"timer/hrtimer_expire_entry":             "CPU == %d",
	"timer/timer_expire_entry":               "CPU == %d",
	"timer/tick_stop":                        "CPU == %d",
	"workqueue/workqueue_execute_start":      "CPU == %d",
	"sched/sched_switch":                     "CPU == %d",
	"irq/irq_handler_entry":                  "CPU == %d",
	"irq/softirq_entry":                      "CPU == %d",
	"csd/csd_function_entry":                 "CPU == %d",
}

// tracedAs is a line of the tracer: the event, and who or what it is for.
var tracedAs = regexp.MustCompile(`: ([a-z_]+): .*?((?:callsite|func|function|vec|dependency|next_comm|name)=[^ +,]+)?(?:[ +,].*)?$`)

// interrupters counts what interrupts a CPU while f runs, by the tracepoint and the kernel's function.
func interrupters(t *lab.T, cpu int, f func()) (by []string) {
	if err := syscall.Mount("tracefs", lab.TraceFolder, "tracefs", 0, ""); err != nil && err != syscall.EBUSY {
		f()
		return []string{fmt.Sprintf("mount tracefs: %v", err)}
	}
	set := func(file, value string) {
		if err := os.WriteFile(filepath.Join(lab.TraceFolder, file), []byte(value), 0); err != nil {
			by = append(by, fmt.Sprintf("%s: %v", file, err))
		}
	}
	set("tracing_on", "0")
	set("trace", "")
	for event, filter := range interruptEvents {
		set("events/"+event+"/filter", fmt.Sprintf(filter, cpu))
		set("events/"+event+"/enable", "1")
	}
	set("tracing_on", "1")
	f()
	set("tracing_on", "0")
	set("events/enable", "0")
	count := map[string]int{}
	for l := range strings.Lines(t.Read(filepath.Join(lab.TraceFolder, "trace"))) {
		if m := tracedAs.FindStringSubmatch(strings.TrimSpace(l)); m != nil {
			count[strings.TrimSpace(m[1]+" "+m[2])]++
		}
	}
	for _, what := range slices.Sorted(maps.Keys(count)) {
		by = append(by, strconv.Itoa(count[what])+" "+what)
	}
	return by
}
