package domain

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/homenode/homenode/core/workload"
)

func TestAttachments(t *testing.T) {
	d, err := Parse([]byte(`<domain type='kvm' id='3'><name>a</name><devices>
<disk type='file' device='disk'><source file='/a.qcow2'/><target dev='vda'/></disk>
<disk type='network' device='disk'><source protocol='rbd' name='pool/a'><host name='10.0.0.5' port='6789'/><host name='[2001:db8::6]' port='6789'/></source><target dev='vdb'/></disk>
<disk type='network' device='disk'><source protocol='rbd' name='pool/b'/><target dev='vdc'/></disk>
<disk type='network'><source protocol='iscsi' name='iqn.x/1'><host name='san'/></source></disk>
<interface type='bridge'><source bridge='br0'/><target dev='vnet3'/></interface>
<interface type='direct'><source dev='eth0'/><target dev='macvtap0'/></interface>
<interface type='network'><source network='default'/></interface>
</devices></domain>`))
	if err != nil {
		t.Fatal(err)
	}
	want := []workload.Attachment{{Kind: workload.ByTap, Name: "vnet3", Device: "vnet3"},
		{Kind: workload.ByNetDisk, Name: "vdb", Protocol: "rbd", Servers: []string{"10.0.0.5", "2001:db8::6"}},
		{Kind: workload.ByNetDisk, Protocol: "iscsi", Servers: []string{"san"}}}
	if diff := cmp.Diff(want, d.Attachments()); diff != "" {
		t.Error(diff)
	}
}
