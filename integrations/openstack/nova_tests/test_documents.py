"""Domain documents that the real Nova writes, for homenode's own tests (host/libvirt/domain, TestNovaDocuments).

They go into the folder HOMENODE_NOVA_DOMAINS: NAME.xml for each kind of guest on one host, all at
once; host.json is that host as homenode reads it. migrated/NAME.xml is what Nova makes of some for a
host with other CPUs, migrated/host.json that host.
"""

import json
import os
from unittest import mock

import fixtures
from lxml import etree
from nova import objects
from nova.tests.fixtures import libvirt as fakelibvirt
from nova.tests.functional.libvirt import base
from nova.virt.libvirt import driver
from nova.virt.libvirt import migration

PIN = {"hw:cpu_policy": "dedicated"}
FLAVORS = {
    "float": (2, {}),
    "float-weighed": (2, {"quota:cpu_shares": "400"}),
    "pinned": (2, PIN),
    "pinned-cores": (2, {**PIN, "hw:cpu_thread_policy": "require"}),
    "emulator-isolated": (2, {**PIN, "hw:emulator_threads_policy": "isolate"}),
    "emulator-shared": (2, {**PIN, "hw:emulator_threads_policy": "share"}),
    "mixed": (4, {"hw:cpu_policy": "mixed", "hw:cpu_dedicated_mask": "2-3"}),
    "mixed-emulator": (3, {"hw:cpu_policy": "mixed", "hw:cpu_dedicated_mask": "2", "hw:emulator_threads_policy": "isolate"}),
    "numa2": (2, {"hw:numa_nodes": "2"}),
    "numa2-pinned": (2, {**PIN, "hw:numa_nodes": "2"}),
    "numa4": (4, {"hw:numa_nodes": "4"}),
    "numa4-pinned": (4, {**PIN, "hw:numa_nodes": "4"}),
    "uneven": (3, {**PIN, "hw:numa_nodes": "2", "hw:numa_cpus.0": "0", "hw:numa_cpus.1": "1,2", "hw:numa_mem.0": "256", "hw:numa_mem.1": "768"}),
    "huge-pages": (2, {"hw:mem_page_size": "2048"}),
    "huge-pages-pinned": (2, {**PIN, "hw:mem_page_size": "large"}),
    "realtime": (2, {**PIN, "hw:cpu_realtime": "yes", "hw:cpu_realtime_mask": "^0"}),
}
NODES, CORES = 4, 6


def host(nodes, cores, gib):
    """The host of fakelibvirt.HostInfo(cpu_nodes=nodes, cpu_cores=cores, cpu_threads=2), numbered core by core."""
    per = 2 * cores
    return {
        "schema": "homenode-host/1",
        "nodes": [
            {
                "id": i, "package": i, "cpus": f"{per * i}-{per * i + per - 1}", "memory_kib": gib << 20, "kind": "dram",
                "hugepages": [{"size_kib": 2048, "total": 1024, "free": 1024}],
            }
            for i in range(nodes)
        ],
        "packages": [{"id": i, "cpus": f"{per * i}-{per * i + per - 1}"} for i in range(nodes)],
        "cores": [
            {"cpus": f"{2 * i}-{2 * i + 1}", "node": i // cores, "package": i // cores, "capacity": None}
            for i in range(nodes * cores)
        ],
        "llcs": [], "distances": [[10 if a == b else 20 for b in range(nodes)] for a in range(nodes)],
        "online_cpus": f"0-{per * nodes - 1}", "offline_cpus": "",
        "allowed_cpus": f"0-{per * nodes - 1}", "allowed_mems": f"0-{nodes - 1}",
        "measured": None, "devices": [], "notes": [],
    }


class DocumentsTest(base.ServersTestBase):
    ADDITIONAL_FILTERS = ["NUMATopologyFilter"]
    microversion = "latest"

    def setUp(self):
        super().setUp()
        self.flags(cores=-1, instances=-1, ram=-1, group="quota")
        self.folder = os.environ.get("HOMENODE_NOVA_DOMAINS") or self.useFixture(fixtures.TempDir()).path
        os.makedirs(os.path.join(self.folder, "migrated"), exist_ok=True)
        self.documents = {}
        real = driver.LibvirtDriver._get_guest_xml

        def seen(driver_self, context, instance, *args, **kwargs):
            xml = real(driver_self, context, instance, *args, **kwargs)
            self.documents[instance.display_name] = (instance, xml)
            return xml

        self.useFixture(fixtures.MonkeyPatch("nova.virt.libvirt.driver.LibvirtDriver._get_guest_xml", seen))
        online = set(range(2 * NODES * CORES))
        self.useFixture(fixtures.MonkeyPatch("nova.virt.libvirt.host.Host.get_online_cpus", lambda *_: online))

    def _get_connection(self, host_info=None, *args, **kwargs):
        return fakelibvirt.Connection(  # as the base class, which bounds the number of CPUs
            "qemu:///system", version=fakelibvirt.FAKE_LIBVIRT_VERSION, hv_version=fakelibvirt.FAKE_QEMU_VERSION,
            host_info=host_info, hostname=args[-1] if args else kwargs.get("hostname"),
        )

    def start(self, name):
        info = fakelibvirt.HostInfo(cpu_nodes=NODES, cpu_sockets=1, cpu_cores=CORES, cpu_threads=2, kB_mem=NODES * (16 << 20))
        for cell in info.numa_topology.cells:
            cell.mempages = fakelibvirt.create_mempages([(4, 14 << 18), (2048, 1024)])
        self.start_compute(hostname=name, host_info=info)

    def write(self, name, text):
        with open(os.path.join(self.folder, name), "w") as f:
            f.write(text)

    def create(self, name, vcpus, specs, on):
        flavor = self._create_flavor(vcpu=vcpus, memory_mb=1024, disk=1, ephemeral=0, extra_spec=specs)
        self._create_server(name=name, flavor_id=flavor, host=on, networks="none")
        return self.documents[name]

    def test_documents(self):
        dedicated = ",".join(f"{12 * i + 4}-{12 * i + 11}" for i in range(NODES))
        shared = ",".join(f"{12 * i + 2}-{12 * i + 3}" for i in range(NODES))
        self.flags(cpu_dedicated_set=dedicated, cpu_shared_set=shared, group="compute")
        self.start("compute1")
        self.write("host.json", json.dumps(host(NODES, CORES, 16)))
        for name, (vcpus, specs) in FLAVORS.items():
            _, xml = self.create(name, vcpus, specs, "compute1")
            self.write(name + ".xml", xml)
        pins = [
            pin.get("cpuset")
            for _, xml in self.documents.values()
            for pin in etree.fromstring(xml).findall("./cputune/vcpupin")
        ]
        own = [p for p in pins if p.isdecimal()]
        self.assertEqual(len(own), len(set(own)))
        self.assertGreaterEqual(len(own), 20)

        # Nova sends those that float to a host with 8 CPUs, of which two are shared, or with no such set.
        self.write(os.path.join("migrated", "host.json"), json.dumps(host(2, 2, 8)))
        for name in ("float", "float-weighed"):
            for target, cpus in (("fenced", {6, 7}), ("free", set())):
                xml = self.migrated(*self.documents[name], cpus)
                self.write(os.path.join("migrated", f"{name}-{target}.xml"), xml)

    def test_without_sets(self):
        self.start("compute1")
        _, xml = self.create("unfenced", 2, {}, "compute1")
        self.assertIsNone(etree.fromstring(xml).find("./vcpu").get("cpuset"))
        self.write("unfenced.xml", xml)

    def migrated(self, instance, xml, cpus):
        """Nova's own rewriting of a document that homenode has left as it was."""
        data = objects.LibvirtLiveMigrateData(
            graphics_listen_addr_vnc="127.0.0.1", graphics_listen_addr_spice="127.0.0.1", serial_listen_addr="127.0.0.1",
            serial_listen_ports=[], target_connect_addr=None, bdms=[], block_migration=False, dst_cpu_shared_set_info=cpus,
        )
        guest = mock.Mock()
        guest.get_xml_desc.return_value = xml
        return migration.get_updated_guest_xml(instance, guest, data, lambda *args: None)
