"""What `homenode openstack export` writes is taken by Nova itself. HOMENODE is the program."""

import json
import os
import re
import shlex
import subprocess
import unittest

import fixtures
import nova.conf
from nova import objects
from nova.api.validation.extra_specs import validators
from nova.compute import provider_config
from nova.tests.fixtures import libvirt as fakelibvirt
from nova.tests.functional.libvirt import base
from nova.virt import hardware

CONF = nova.conf.CONF
HOMENODE = os.environ.get("HOMENODE", "")
# As the fake host below: two nodes of 3 cores with 2 threads, numbered core by core.
HOST = {
    "schema": "homenode-host/1",
    "nodes": [
        {"id": i, "package": i, "cpus": "%d-%d" % (6 * i, 6 * i + 5), "memory_kib": 8 << 20, "kind": "dram", "hugepages": []}
        for i in range(2)
    ],
    "packages": [{"id": i, "cpus": "%d-%d" % (6 * i, 6 * i + 5)} for i in range(2)],
    "cores": [
        {"cpus": "%d-%d" % (2 * i, 2 * i + 1), "node": i // 3, "package": i // 3, "capacity": None} for i in range(6)
    ],
    "llcs": [],
    "distances": [[10, 32], [32, 10]],
    "online_cpus": "0-11",
    "offline_cpus": "",
    "allowed_cpus": "0-11",
    "allowed_mems": "0-1",
    "measured": None,
    "devices": [],
    "notes": [],
}


def export(folder, *more):
    subprocess.run(
        [HOMENODE, "openstack", "export", "--out", folder, *more], check=True, stdout=subprocess.DEVNULL, cwd=folder
    )


def made(script):
    """The flavors of flavors.sh: name, vcpus, MiB and extra specs of each, as a shell would run it."""
    flavors = {}
    for words in (shlex.split(line) for line in re.sub(r"\\\n", " ", script).splitlines()):
        if words[:3] == ["openstack", "flavor", "create"]:
            flavors[words[-1]] = {"vcpu": int(words[4]), "memory_mb": int(words[6]), "extra_spec": {}}
        elif words[:3] == ["openstack", "flavor", "set"]:
            flavors[words[-1]]["extra_spec"] = dict(w.split("=", 1) for w in words[3:-1] if w != "--property")
    return flavors


@unittest.skipUnless(HOMENODE, "HOMENODE names no program")
class ExportTest(base.ServersTestBase):
    ADDITIONAL_FILTERS = ["NUMATopologyFilter"]

    def setUp(self):
        super().setUp()
        self.folder = self.useFixture(fixtures.TempDir()).path

    def host(self):
        path = os.path.join(self.folder, "host.json")
        with open(path, "w") as f:
            json.dump(HOST, f)
        return path

    def read(self):
        with open(os.path.join(self.folder, "flavors.sh")) as f:
            return made(f.read())

    def test_settings(self):
        export(
            self.folder, "--reserve", "0,1,12,13", "--partition", "4-11,16-23", "--reserve-huge-pages", "0:2MiB:64",
            "--reserve-huge-pages", "1:1GiB:2", "--overcommit", "2",
            "--synthetic", "package:2 node:1(memory=64GiB hugepages=2MiB:1024 hugepages=1GiB:4) core:6 pu:2",
        )
        own = nova.conf.cfg.ConfigOpts()
        nova.conf.compute.register_opts(own)
        own([], default_config_files=[os.path.join(self.folder, "nova-compute.conf")])
        for group, name in (("compute", "cpu_dedicated_set"), ("compute", "cpu_shared_set")):
            self.flags(**{name: getattr(getattr(own, group), name)}, group=group)
        self.flags(reserved_huge_pages=own.reserved_huge_pages)
        self.assertEqual(2.0, own.cpu_allocation_ratio)
        self.assertEqual({*range(4, 12), *range(16, 24)}, hardware.get_cpu_dedicated_set())
        self.assertEqual({2, 3, 14, 15}, hardware.get_cpu_shared_set())
        self.assertEqual({0: {2048: 64}, 1: {1 << 20: 2}}, hardware.numa_get_reserved_huge_pages())

    def test_flavors_are_valid(self):
        export(
            self.folder, "--partition", "50%",
            "--synthetic", "package:2 node:1(memory=512GiB hugepages=2MiB:65536 hugepages=1GiB:128) core:64 pu:2",
        )
        flavors = self.read()
        self.assertGreaterEqual(len(flavors), 15)
        for name, flavor in flavors.items():
            for key, value in flavor["extra_spec"].items():
                validators.validate(key, value)
            specs = objects.Flavor(vcpus=flavor["vcpu"], memory_mb=flavor["memory_mb"], extra_specs=flavor["extra_spec"])
            topology = hardware.numa_get_constraints(specs, objects.ImageMeta(properties=objects.ImageMetaProps()))
            self.assertEqual("hw:numa_nodes" in flavor["extra_spec"], topology is not None, name)

    def test_kinds_of_flavors_are_understood(self):
        """Mixed guests, cells by hand, realtime and bursts mean to Nova what they mean to homenode."""
        flavors = os.path.join(self.folder, "flavors.yaml")
        with open(flavors, "w") as f:
            f.write(
                "flavors:\n"
                "  - {name: mixed, class: mixed, vcpus: 4, dedicated_vcpus: 2-3, memory: 4GiB, emulator: isolate}\n"
                "  - {name: uneven, class: dedicated, vcpus: 6, memory: 4GiB,"
                " cells: [{vcpus: 0-1, memory: 1GiB}, {vcpus: 2-5, memory: 3GiB}]}\n"
                "  - {name: cells, class: shared, vcpus: 4, memory: 4GiB,"
                " cells: [{vcpus: 0-1, memory: 1GiB}, {vcpus: 2-3, memory: 3GiB}]}\n"
                "  - {name: realtime, class: mixed, vcpus: 2, dedicated_vcpus: 1, realtime: 1, memory: 1GiB,"
                " network: 1MiB, network_peak: 2MiB, network_burst: 3MiB}\n"
                "  - {name: exact, class: dedicated, vcpus: 4, memory: 4GiB, exact_nodes: 2}\n"
            )
        export(
            self.folder, "--partition", "50%", "--flavors", flavors,
            "--synthetic", "package:2 node:1(memory=64GiB) core:16 pu:2",
        )
        want = {  # of each cell the vCPUs that float, those with a CPU of their own, MiB
            "mixed": [({0, 1}, {2, 3}, 4096)],
            "uneven": [(set(), {0, 1}, 1024), (set(), {2, 3, 4, 5}, 3072)],
            "cells": [({0, 1}, set(), 1024), ({2, 3}, set(), 3072)],
            "realtime": [({0}, {1}, 1024)],
            "exact": [(set(), {0, 1}, 2048), (set(), {2, 3}, 2048)],
        }
        got = {}
        for name, flavor in self.read().items():
            for key, value in flavor["extra_spec"].items():
                validators.validate(key, value)
            specs = objects.Flavor(vcpus=flavor["vcpu"], memory_mb=flavor["memory_mb"], extra_specs=flavor["extra_spec"])
            topology = hardware.numa_get_constraints(specs, objects.ImageMeta(properties=objects.ImageMetaProps()))
            got[name] = [(set(c.cpuset), set(c.pcpuset), c.memory) for c in topology.cells]
        self.assertEqual(want, got)

    def test_memory_is_promised_more_than_once(self):
        export(
            self.folder, "--partition", "shared", "--memory-overcommit", "1.5",
            "--synthetic", "package:1 node:1(memory=64GiB) core:4 pu:1",
        )
        own = nova.conf.cfg.ConfigOpts()
        nova.conf.compute.register_opts(own)
        own([], default_config_files=[os.path.join(self.folder, "nova-compute.conf")])
        self.assertEqual(1.5, own.ram_allocation_ratio)

    def test_servers_start_on_such_a_host(self):
        """Nova with the settings, the traits and the flavors gives each kind of guest its CPUs."""
        flavors = os.path.join(self.folder, "flavors.yaml")
        with open(flavors, "w") as f:
            f.write(
                "flavors:\n"
                "  - {name: float, class: shared, vcpus: 2, memory: 512MiB, network: 64MiB}\n"
                "  - {name: own, class: dedicated, vcpus: 2, memory: 512MiB, max_nodes: 1, emulator: housekeeping}\n"
                "  - {name: wide, class: dedicated, vcpus: 8, memory: 1GiB, smt: require}\n"
            )
        export(self.folder, "--partition", "2-5,8-11", "--flavors", flavors, "--host", self.host())
        own = nova.conf.cfg.ConfigOpts()
        nova.conf.compute.register_opts(own)
        own([], default_config_files=[os.path.join(self.folder, "nova-compute.conf")])
        self.flags(
            cpu_dedicated_set=own.compute.cpu_dedicated_set, cpu_shared_set=own.compute.cpu_shared_set,
            provider_config_location=self.folder, group="compute",
        )
        os.rename(flavors, flavors + ".txt")  # Nova reads every *.yaml there
        self.assertEqual(1, len(provider_config.get_provider_configs(self.folder)))
        self.start_compute(
            hostname="compute1",
            host_info=fakelibvirt.HostInfo(cpu_nodes=2, cpu_sockets=1, cpu_cores=3, cpu_threads=2, kB_mem=16 << 20),
        )
        traits = self._get_provider_traits(self.compute_rp_uuids["compute1"])
        self.assertIn("CUSTOM_HOMENODE_NODES_2", traits)
        self.assertIn("CUSTOM_HOMENODE_FARTHEST_32", traits)
        self.assertEqual({"float", "own", "wide"}, set(self.read()))
        for name, flavor in self.read().items():
            specs = {**flavor["extra_spec"], "trait:CUSTOM_HOMENODE_NODES_2": "required"}
            server = self._create_server(flavor_id=self._create_flavor(vcpu=flavor["vcpu"], memory_mb=flavor["memory_mb"], extra_spec=specs))
            xml = self.computes["compute1"].driver._host.get_connection().lookupByUUIDString(server["id"]).XMLDesc(0)
            pins = {int(c) for c in re.findall(r"<vcpupin vcpu=.\d+. cpuset=.(\d+)./>", xml)}
            if name == "float":
                self.assertIn("0-1,6-7", xml)
            else:
                self.assertEqual(flavor["vcpu"], len(pins), xml)
                self.assertLessEqual(pins, {2, 3, 4, 5, 8, 9, 10, 11})
            self._delete_server(server)
