package plan_test

import (
	"reflect"
	"testing"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
)

// TestPolicyEqual: a policy with any field changed is another one, also with a field that is added later.
func TestPolicyEqual(t *testing.T) {
	p, q := plan.DefaultPolicy(), plan.DefaultPolicy()
	if !p.Equal(&q) {
		t.Error("a policy is not equal to itself")
	}
	for i := range reflect.TypeFor[plan.Policy]().NumField() {
		q := plan.DefaultPolicy()
		f := reflect.ValueOf(&q).Elem().Field(i)
		switch f.Kind() {
		case reflect.String:
			f.SetString("another")
		case reflect.Bool:
			f.SetBool(!f.Bool())
		case reflect.Float64:
			f.SetFloat(f.Float() + 1)
		case reflect.Int64:
			f.SetInt(f.Int() + 1)
		default:
			f.Set(reflect.ValueOf(topology.CPUs(7)))
		}
		if p.Equal(&q) || q.Equal(&p) {
			t.Errorf("%s does not count", reflect.TypeFor[plan.Policy]().Field(i).Name)
		}
	}
}
