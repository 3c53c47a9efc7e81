"""The weigher and the filter under Nova's real scheduler, with real Placement and a fake libvirt."""

import fixtures
import nova.conf
from nova.tests.fixtures import libvirt as fakelibvirt
from nova.tests.functional.libvirt import base

from homenode_nova import scheduler
from nova_tests import hosts

CONF = nova.conf.CONF
WEIGHER = "homenode_nova.scheduler.HomenodeWeigher"
FILTER = "homenode_nova.scheduler.HomenodeFilter"
OWN = "nova.scheduler.weights.all_weighers"


class Base(base.ServersTestBase):
    weighers = [OWN, WEIGHER]
    ADDITIONAL_FILTERS = ["NUMATopologyFilter", FILTER.rpartition(".")[2]]

    def setUp(self):
        self.homenodes = hosts.Homenodes(self.useFixture(fixtures.TempDir()).path)
        self.addCleanup(self.homenodes.close)
        super().setUp()

    def _setup_services(self):
        self.flags(weight_classes=self.weighers, group="filter_scheduler")
        available = CONF.filter_scheduler.available_filters
        self.flags(available_filters=available + [FILTER], group="filter_scheduler")
        self.flags(
            url=self.homenodes.url, ca_file=self.homenodes.ca, cert_file=self.homenodes.client, fresh=0, group="homenode"
        )
        scheduler.forget()
        self.addCleanup(scheduler.forget)
        super()._setup_services()

    def start(self, name, gib=16, room=None):
        """A host of two nodes with 6 CPUs each, and what its homenode says of it."""
        info = fakelibvirt.HostInfo(cpu_nodes=2, cpu_sockets=1, cpu_cores=3, cpu_threads=2, kB_mem=gib << 20)
        self.start_compute(host_info=info, hostname=name)
        if room:
            self.homenodes.set(name, room)

    def create(self, vcpu=4, state="ACTIVE", memory_mb=1024, **specs):
        flavor = self._create_flavor(vcpu=vcpu, memory_mb=memory_mb, extra_spec={k.replace("__", ":"): v for k, v in specs.items()})
        server = self._create_server(flavor_id=flavor, expected_state=state)
        return server["OS-EXT-SRV-ATTR:host"]

    def two(self):
        """Nova prefers the first, which has more memory; only the second has 4 CPUs on one node."""
        self.start("first", gib=32, room=hosts.room([(3, 8), (3, 8)]))
        self.start("second", gib=16, room=hosts.room([(0, 8), (6, 8)]))


class WeigherTest(Base):
    def test_server_goes_where_one_node_has_room(self):
        self.two()
        self.assertEqual("second", self.create())
        self.assertEqual({"first", "second"}, self.homenodes.asked())

    def test_weigher_can_be_turned_off(self):
        self.flags(weight_multiplier=0.0, group="homenode")
        self.two()
        self.assertEqual("first", self.create())

    def test_nearer_nodes_are_preferred(self):
        self.start("first", gib=32, room=hosts.room([(3, 8), (3, 8)], ((10, 32), (32, 10))))
        self.start("second", gib=16, room=hosts.room([(3, 8), (3, 8)], ((10, 12), (12, 10))))
        self.assertEqual("second", self.create())

    def test_silent_hosts_do_not_stop_scheduling(self):
        self.flags(timeout=0.2, group="homenode")
        self.start("first", gib=32)  # 404
        self.start("second", gib=16)
        self.assertEqual("first", self.create())
        self.homenodes.close()  # nothing listens
        scheduler.forget()
        self.assertIsNotNone(self.create(vcpu=1))
        self.assertIn("homenode of host first/first does not answer", self.stdlog.logger.output)


class WithoutWeigherTest(Base):
    weighers = [OWN]

    def test_server_goes_where_nova_alone_sends_it(self):
        self.two()
        self.assertEqual("first", self.create())


class FilterTest(Base):
    weighers = [OWN]

    def test_flavor_with_few_nodes(self):
        self.two()
        self.assertEqual("second", self.create(homenode__max_nodes="1"))
        self.homenodes.set("second", hosts.room([(3, 8), (3, 8)]))
        self.assertIsNone(self.create(homenode__max_nodes="1", state="ERROR"))

    def test_wide_guest(self):
        self.start("first", gib=32, room=hosts.room([(2, 8), (6, 8)]))
        self.start("second", gib=16, room=hosts.room([(6, 8), (6, 8)]))
        self.assertEqual("second", self.create(vcpu=6, hw__numa_nodes="2"))
        self.homenodes.set("second", hosts.room([(2, 8), (6, 8)]))
        self.assertIsNone(self.create(vcpu=6, hw__numa_nodes="2", state="ERROR"))

    def test_far_nodes(self):
        self.start("first", gib=32, room=hosts.room([(6, 8), (6, 8)], ((10, 32), (32, 10))))
        self.start("second", gib=16, room=hosts.room([(6, 8), (6, 8)]))
        self.assertEqual("second", self.create(vcpu=6, hw__numa_nodes="2", homenode__max_distance="21"))

    def test_silent_host_passes(self):
        self.start("first")
        self.assertEqual("first", self.create(homenode__max_nodes="1"))
