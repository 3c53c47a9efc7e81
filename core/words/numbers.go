package words

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// unknown is a size, in KiB, that stands for memory of which nothing is known: far above
// any machine.
const unknown = 1 << 49

// Size formats memory in KiB in the largest binary unit that keeps it at 1 or more, with one
// decimal if it is not whole.
func Size[T ~int64](kib T) string {
	switch {
	case kib < 0 || kib >= unknown:
		return "an unknown amount of memory"
	case kib < 1<<10:
		return fmt.Sprintf("%d KiB", kib)
	}
	v, unit := float64(kib), ""
	for _, unit = range []string{"MiB", "GiB", "TiB"} {
		if v /= 1 << 10; v < 1<<10 {
			break
		}
	}
	return strings.TrimSuffix(strconv.FormatFloat(v, 'f', 1, 64), ".0") + " " + unit
}

// Bytes formats memory in bytes as Size does.
func Bytes[T ~int64](n T) string {
	if n >= 0 && n < 1<<10 {
		return Count(n, "byte")
	}
	return Size(int64(n) >> 10)
}

// Lasts formats a duration in few characters: "45 s", "12 min", "3 h".
func Lasts(d time.Duration) string {
	d = d.Round(time.Second)
	switch {
	case d < 2*time.Minute:
		return strconv.FormatFloat(max(0, d.Seconds()), 'f', 0, 64) + " s"
	case d < 2*time.Hour:
		return strconv.FormatFloat(d.Minutes(), 'f', 0, 64) + " min"
	}
	return strconv.FormatFloat(d.Hours(), 'f', 0, 64) + " h"
}

// Span formats how long something took, as reports show it: "45 s", "3 min", "2 h 10 min", "3.5 days".
func Span(d time.Duration) string {
	switch {
	case d >= 48*time.Hour:
		return fmt.Sprintf("%.1f days", d.Hours()/24)
	case d >= time.Hour:
		return fmt.Sprintf("%d h %d min", int(d.Hours()), int(d.Minutes())%60)
	case d >= time.Minute:
		return fmt.Sprintf("%.0f min", d.Minutes())
	}
	return fmt.Sprintf("%.0f s", d.Seconds())
}

// Count formats a number with its noun: "1 node", "2 nodes". For a plural without s give both,
// "entry|entries"; in "CPU on whole cores" the plural goes to CPU.
func Count[T ~int | ~int64 | ~float64](n T, noun string) string {
	one, many, given := strings.Cut(noun, "|")
	if !given {
		head, tail, of := strings.Cut(one, " on ")
		if many = head + "s"; of {
			many += " on " + tail
		}
	}
	return strconv.FormatFloat(float64(n), 'g', max(4, digits(float64(n))), 64) + " " + pick(float64(n), one, many)
}

// digits is how many digits a number has before the point.
func digits(x float64) int { return len(strconv.FormatInt(int64(x), 10)) }

func pick(n float64, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}

// List joins texts: "a, b and c".
func List[T ~string](parts []T) string { return join(parts, ", ", " and ") }

// Nodes formats a set of nodes, or its list format, with its noun: "node 0", "nodes 0-1".
func Nodes(set any) string { return show("nodes", plain(set)) }

// CPUs formats a set of CPUs, or its list format, with its noun: "CPU 3", "CPUs 0-3".
func CPUs(set any) string { return show("cpus", plain(set)) }

// Caches formats a set of last-level caches, or its list format, with its noun: "cache 3", "caches 2-3".
func Caches(set any) string { return show("caches", plain(set)) }

// Home formats a home for a table: its nodes and the last-level caches that it is confined to, if any: "1",
// "1, cache 3", "0-1, caches 7-8". Both are sets or in list format; empty caches mean all of the home.
func Home(nodes, caches any) string { return withCaches(text(plain(nodes)), caches) }

// HomeNodes is Home with the noun of the nodes: "node 1, cache 3".
func HomeNodes(nodes, caches any) string { return withCaches(Nodes(nodes), caches) }

func withCaches(home string, caches any) string {
	list := text(plain(caches))
	if list == "" || home == "" {
		return home
	}
	return home + ", " + Caches(list)
}

// Duration formats a duration in sentences: "300 ms", "90 s", "5 min", "12 min 6 s", "2 h 10 min".
func Duration(d time.Duration) string {
	if d < 0 {
		return "-" + Duration(-d)
	}
	if ms := d.Round(time.Millisecond); ms > 0 && ms < time.Second {
		return fmt.Sprintf("%d ms", ms.Milliseconds())
	}
	d = d.Round(time.Second)
	minutes, seconds := int(d.Minutes()), int(d.Seconds())%60
	switch {
	case d < 2*time.Minute && d != time.Minute:
		return fmt.Sprintf("%.0f s", d.Seconds())
	case d < 2*time.Hour && seconds > 0:
		return fmt.Sprintf("%d min %d s", minutes, seconds)
	case d < 2*time.Hour && d != time.Hour:
		return fmt.Sprintf("%d min", minutes)
	case minutes%60 > 0:
		return fmt.Sprintf("%d h %d min", minutes/60, minutes%60)
	}
	return fmt.Sprintf("%d h", minutes/60)
}
