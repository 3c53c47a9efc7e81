package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/homenode/homenode/e2e/suite"
)

// nicModules is what a guest with a network card loads, in this order: the card's own, what taps and bridges
// are made of, vhost, what lists the two ends of a socket (sock_diag(7)), and character devices in user space.
var nicModules = []string{"failover", "net_failover", "virtio_net", "veth", "llc", "stp", "bridge", "tun", "tap",
	"vhost_iotlb", "vhost", "vhost_net", "unix_diag", "inet_diag", "tcp_diag", "cuse"}

// fetchModules gets the modules of the guest's kernel when a shape has a network card.
func (t *tools) fetchModules(ctx context.Context, root string, jobs []work) error {
	if !slices.ContainsFunc(jobs, func(j work) bool { return j.shape.NIC > 0 }) {
		return nil
	}
	c := exec.CommandContext(ctx, filepath.Join(root, "e2e", "fetch-modules.sh"), nicModules...)
	c.Stderr = os.Stderr
	out, err := c.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == 3 {
		t.noModules = "the archive no longer has the modules of Linux " + t.kernel +
			"; remove the cache to fetch a newer one"
		return nil
	}
	if err != nil {
		return fmt.Errorf("run e2e/fetch-modules.sh: %w", err)
	}
	for i, name := range nicModules {
		found, _ := filepath.Glob(filepath.Join(strings.TrimSpace(string(out)), name+".ko*"))
		if len(found) == 1 { // else it is built in
			t.modules = append(t.modules, archived{name: fmt.Sprintf("modules/%02d-%s", i, filepath.Base(found[0])),
				from: found[0]})
		}
	}
	return nil
}

// nicArgs is a virtio card behind a PCI root of its node. Its queues end in a tap that
// leads nowhere; where the machine lends none, in a hub, with one queue.
func nicArgs(s suite.Shape) []string {
	if s.NIC == 0 {
		return nil
	}
	queues, backend := 1, "hubport,id=nic,hubid=0"
	if f, err := os.OpenFile("/dev/net/tun", os.O_RDWR, 0); err == nil {
		f.Close()
		if os.Geteuid() == 0 {
			queues, backend = suite.NICQueues, fmt.Sprintf("tap,id=nic,queues=%d,script=no,downscript=no,vhost=off",
				suite.NICQueues)
		}
	}
	return []string{
		"-device", fmt.Sprintf("pxb-pcie,id=pxb,bus=pcie.0,bus_nr=128,numa_node=%d", s.NIC),
		"-device", "pcie-root-port,id=nicport,bus=pxb,chassis=1,slot=1",
		"-netdev", backend,
		"-device", fmt.Sprintf("virtio-net-pci,netdev=nic,bus=nicport,mq=on,vectors=%d,romfile=", 2*queues+2),
	}
}
