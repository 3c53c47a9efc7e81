package topology

import (
	"fmt"
	"reflect"
	"slices"
	"testing"
)

// TestSameMachine: a change of any field makes a host another one, except for free memory and notes. New fields are found
// by reflection.
func TestSameMachine(t *testing.T) {
	full := func() *Host {
		var h Host
		fillFields(reflect.ValueOf(&h).Elem(), 1)
		return &h
	}
	if !full().SameMachine(full()) {
		t.Fatal("a host is not the same as itself")
	}
	counts := []string{"Host.Nodes.Free", "Host.Nodes.Reclaimable", "Host.Notes.Subject", "Host.Notes.Text"}
	n := len(leaves(reflect.ValueOf(full()).Elem(), "Host"))
	for i := range n {
		h := full()
		x := leaves(reflect.ValueOf(h).Elem(), "Host")[i]
		x.change()
		if got, want := h.SameMachine(full()), slices.Contains(counts, x.name); got != want {
			t.Errorf("%s was changed, the same: %v", x.name, got)
		}
		if got := full().SameMachine(h); got != h.SameMachine(full()) {
			t.Errorf("%s: not symmetric", x.name)
		}
	}
	if n < 45 {
		t.Errorf("%d fields: the test tests nothing", n)
	}
	h := full()
	h.Measured = nil
	if h.SameMachine(full()) {
		t.Error("a host without measurements is one with them")
	}
}

// fillFields gives every field of a value something, slices one element.
func fillFields(v reflect.Value, n int64) {
	switch v.Kind() {
	case reflect.Struct:
		if add := v.Addr().MethodByName("Add"); add.IsValid() {
			add.Call([]reflect.Value{reflect.ValueOf(n).Convert(add.Type().In(0))})
			return
		}
		for i := range v.NumField() {
			fillFields(v.Field(i), n)
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fillFields(v.Index(0), n)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fillFields(v.Elem(), n)
	case reflect.String:
		v.SetString(fmt.Sprint(n))
	case reflect.Bool:
		v.SetBool(n == 1)
	case reflect.Float64:
		v.SetFloat(float64(n))
	default:
		v.SetInt(n)
	}
}

// leaf is a field that can be changed by itself.
type leaf struct {
	name   string
	change func()
}

func leaves(v reflect.Value, name string) (out []leaf) {
	switch v.Kind() {
	case reflect.Struct:
		if v.Addr().MethodByName("Add").IsValid() {
			break
		}
		for i := range v.NumField() {
			out = append(out, leaves(v.Field(i), name+"."+v.Type().Field(i).Name)...)
		}
		return out
	case reflect.Slice:
		return leaves(v.Index(0), name)
	case reflect.Pointer:
		return leaves(v.Elem(), name)
	}
	return []leaf{{name, func() { fillFields(v, 2) }}}
}
