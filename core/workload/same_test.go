package workload_test

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// Same sees a change of every field, also of those that come to be, but of those that
// no home is decided by.
func TestSame(t *testing.T) {
	full := func() workload.Observation {
		return workload.Observation{ID: "a", Processes: []workload.Process{{PID: 1}}, RanOn: []workload.NodeShare{{Node: 1, Share: 1}},
			Memory: []workload.NodeMemory{{Node: 1, KiB: 1}}, Anon: []workload.NodeMemory{{Node: 1, KiB: 1}}, Movable: []workload.NodeMemory{{Node: 1, KiB: 1}},
			PerThread: []workload.Thread{{TID: 1}}, VCPUSets: []topology.CPUSet{topology.CPUs(1)},
			CPUs: topology.CPUs(1, 70), Mems: topology.Nodes(1), CPUTime: time.Second, Window: time.Second}
	}
	a, b := full(), full()
	if !a.Same(&b) {
		t.Error("two alike are not")
	}
	for i := range reflect.TypeFor[workload.Observation]().NumField() {
		b := full()
		f, name := reflect.ValueOf(&b).Elem().Field(i), reflect.TypeFor[workload.Observation]().Field(i).Name
		switch f.Interface().(type) {
		case topology.CPUSet:
			b.CPUs.Add(3)
		case topology.NodeSet:
			b.Mems.Add(3)
		default:
			change(f)
		}
		if want := slices.Contains([]string{"CPUTime", "Window", "Throttled", "Executed", "Slices", "Vhost", "Kernel", "Used"}, name); a.Same(&b) != want || b.Same(&a) != want {
			t.Errorf("%s: the same is %t", name, !want)
		}
		if f.Kind() == reflect.Slice {
			f.SetLen(0)
			empty := full()
			reflect.ValueOf(&empty).Elem().Field(i).SetZero()
			if a.Same(&b) || b.Same(&empty) {
				t.Errorf("%s: one more, or none at all, is the same", name)
			}
		}
	}
}

// change makes a value another one, in the first field of a struct.
func change(v reflect.Value) {
	switch v.Kind() {
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), v.Len(), v.Len())) // of zeros
	case reflect.Struct:
		change(v.Field(0))
	case reflect.Bool:
		v.SetBool(!v.Bool())
	case reflect.Int, reflect.Int64:
		v.SetInt(v.Int() + 1)
	case reflect.Uint64:
		v.SetUint(v.Uint() + 1)
	case reflect.Float64:
		v.SetFloat(v.Float() + 1)
	default:
		v.SetString(v.String() + "x")
	}
}
