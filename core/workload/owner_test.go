package workload

import "testing"

func TestOwner(t *testing.T) {
	for _, tt := range []struct {
		name string
		o    Observation
		want Owner
	}{
		{"root", Observation{}, SystemOwner},
		{"a service's user", Observation{UID: 101}, SystemOwner},
		{"a person", Observation{UID: 1000}, "user:1000"},
		{"nobody, who is no service", Observation{UID: 65534}, "user:65534"},
		{"a subordinate UID of user 1000", Observation{UID: 165536, Owner: UserOwner(1000)}, "user:1000"},
		{"root of a container", Observation{Owner: PodOwner("prod/web")}, "pod:prod/web"},
	} {
		if got := tt.o.Responsible(); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
	if uid, ok := Owner("user:1000").User(); !ok || uid != 1000 {
		t.Errorf("user of user:1000: %d, %t", uid, ok)
	}
	if _, ok := PodOwner("a").User(); ok {
		t.Error("a pod is a user")
	}
}
