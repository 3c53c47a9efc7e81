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
<interface type='vhostuser'><source type='unix' path='/run/vhost0' mode='client'/><target dev='vhost0'/></interface>
<interface type='vhostuser'><source type='unix' path='/run/vhost1' mode='server'/></interface>
<disk type='vhostuser' device='disk'><source type='unix' path='/run/blk.sock'><reconnect enabled='yes' timeout='10'/></source><target dev='vdd'/></disk>
<disk type='network'><source protocol='nbd' name='x'><host transport='unix' socket='/run/nbd.sock'/></source><target dev='vde'/></disk>
<filesystem type='mount'><driver type='virtiofs'/><source socket='/run/fs.sock'/><target dir='tag'/></filesystem>
<filesystem type='mount'><driver type='virtiofs'/><source dir='/srv'/><target dir='srv'/></filesystem>
<tpm model='tpm-crb'><backend type='external'><source type='unix' mode='connect' path='/run/tpm.sock'/></backend></tpm>
<tpm model='tpm-crb'><backend type='emulator' version='2.0'/></tpm>
</devices></domain>`))
	if err != nil {
		t.Fatal(err)
	}
	at := func(name, path string) workload.Attachment {
		return workload.Attachment{Kind: workload.BySocket, Name: name, Path: path}
	}
	want := []workload.Attachment{at("vhost0", "/run/vhost0"), at("vdd", "/run/blk.sock"), at("vde", "/run/nbd.sock"), at("tag", "/run/fs.sock"), at("tpm", "/run/tpm.sock"),
		{Kind: workload.ByTap, Name: "vnet3", Device: "vnet3"},
		{Kind: workload.ByBlock, Name: "vda", Path: "/a.qcow2"},
		{Kind: workload.ByNetDisk, Name: "vdb", Protocol: "rbd", Servers: []string{"10.0.0.5", "2001:db8::6"}},
		{Kind: workload.ByNetDisk, Protocol: "iscsi", Servers: []string{"san"}}}
	if diff := cmp.Diff(want, d.Attachments()); diff != "" {
		t.Error(diff)
	}
}
