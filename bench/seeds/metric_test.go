package main

import (
	"strings"
	"testing"
)

// TestMetrics reads what real programs printed; each line of want is a metric of the file.
func TestMetrics(t *testing.T) {
	for _, x := range []struct {
		file, program, text string
		want                map[string]float64
	}{
		{"redis", "load", `"test","rps","avg_latency_ms","min_latency_ms","p50_latency_ms","p95_latency_ms","p99_latency_ms","max_latency_ms"
"SET","74626.87","0.165","0.040","0.159","0.255","0.303","1.631"
"GET","78125.00","0.156","0.024","0.151","0.255","0.311","0.399"
`, map[string]float64{"gets": 78125, "sets": 74626.87, "p99 of gets": 0.311}},
		{"mariadb", "load", `
SQL statistics:
    transactions:                        1525   (1518.23 per sec.)
    queries:                             30500  (30364.66 per sec.)
Latency (ms):
         avg:                                    1.31
         99th percentile:                        4.91
`, map[string]float64{"queries": 30364.66, "p99": 4.91}},
		{"tpcb", "load", `latency average = 0.651 ms
initial connection time = 4.012 ms
tps = 3073.912345 (without initial connection time)
`, map[string]float64{"transactions": 3073.912345, "latency": 0.651}},
		{"memcached", "load", "Run time: 1.0s Ops: 68823 TPS: 68823 Net_rate: 64.8M/s\n", map[string]float64{"operations": 68823}},
		{"stream", "triad", "triad 43440 MB/s\n", map[string]float64{"triad of all": 43440}},
		{"nginx-ffmpeg", "load", "sent 200\nbad 0\np50 0.609 ms\np90 4.100 ms\np99 29.500 ms\nlate p99 0.4 ms\n", map[string]float64{"p50": 0.609, "p99": 29.5}},
		{"unixbench-8", "unixbench", `Dhrystone 2 using register variables  116700.0 49541000.0 42451.6
                                                                   ========
System Benchmarks Partial Index Score (Partial Only)                         1893.4
`, map[string]float64{"index of a guest": 1893.4}},
		{"latency", "tool", "    81.6   145.9\n   144.9    81.2\nlocal 81.40 ns\nremote 145.40 ns\n", map[string]float64{"local": 81.4, "remote": 145.4}},
		{"enterprise-9v9", "instance", "    events per second:   624.70\n\ntriad 15,978 MB/s\n", map[string]float64{"events of a guest": 624.7}},
		{"pacific", "misses", "local 43.5\n", map[string]float64{"misses served locally": 43.5}},
	} {
		e, err := Open(x.file)
		if err != nil {
			t.Fatal(err)
		}
		for i := range e.Metrics {
			m := &e.Metrics[i]
			want, ok := x.want[m.Name]
			if !ok {
				continue
			}
			delete(x.want, m.Name)
			if got, err := m.Read([]string{x.text}); err != nil || got != want {
				t.Errorf("%s: %s is %v, %v; want %v", x.file, m.Name, got, err, want)
			}
		}
		for name := range x.want {
			t.Errorf("%s has no metric %s", x.file, name)
		}
	}
}

func TestFolds(t *testing.T) {
	texts := []string{"10 20", "30 60"}
	for _, x := range []struct {
		matches, combine Fold
		want             float64
	}{
		{"", "", 40}, {Last, Sum, 80}, {First, Sum, 40}, {Sum, Mean, 60}, {Mean, Min, 15}, {Max, Max, 60}, {Min, Spread, 100},
	} {
		m := Metric{Name: "m", Of: []string{"p"}, Pattern: "([0-9]+)", Matches: x.matches, Combine: x.combine}
		if got, err := m.Read(texts); err != nil || got != x.want {
			t.Errorf("%s, %s: %v, %v; want %v", x.matches, x.combine, got, err, x.want)
		}
	}
}

// TestNothingToRead: output without the number is an error that shows its end; it is never 0.
func TestNothingToRead(t *testing.T) {
	m := Metric{Name: "rps", Of: []string{"load"}, Pattern: `rps ([0-9.]+)`}
	_, err := m.Read([]string{"rps 1", "Could not connect\nto Redis"})
	if err == nil || !strings.Contains(err.Error(), `instance 1 of load`) || !strings.Contains(err.Error(), `"Could not connect to Redis"`) {
		t.Error(err)
	}
	if _, err := m.Read(nil); err == nil {
		t.Error("no instance is no error")
	}
	m.Pattern = `rps ([0-9a-z.]+)`
	if _, err := m.Read([]string{"rps nan"}); err == nil {
		t.Error("nan is a number")
	}
}

// TestMedian: one run of a chase that was interrupted, or was fast by chance, is not the result.
func TestMedian(t *testing.T) {
	if got := median([]float64{90, 1, 80, 9000, 85}); got != 85 {
		t.Errorf("%v, want 85", got)
	}
}
