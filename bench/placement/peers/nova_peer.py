"""OpenStack Nova's NUMA fitting on placement cases, for `go run ./bench/placement -speed`.

usage: nova_peer.py CASE.json...   (in a Python with the package nova, which the command sets up)

One JSON line an arrival on standard output: {"peer","case","i","ok","ns"}. Timed is what a compute
node does for an instance: numa_fit_instance_to_host, and on success numa_usage_from_instance_numa.
Memory is in 2 MiB pages and CPUs are dedicated, as for a pinned guest. Nova wants the number of guest
cells beforehand: "strict" asks for the fewest that an empty host could serve, "retry" doubles them until
something fits. Both pack (packing_host_numa_cells_allocation_strategy), which scores better here than
Nova's default of spreading.
"""
import json
import logging
import sys
import time
import warnings

warnings.simplefilter("ignore")
logging.disable(logging.CRITICAL)

import nova.conf  # noqa: E402
from nova import exception, objects  # noqa: E402
from nova.virt import hardware  # noqa: E402

PAGE_KIB = 2048
PAGE_MIB = 2


def describe(host):
    """The host as Nova's objects, reserved CPUs left out."""
    reserved = set(host["reserved_cpus"])
    cells = []
    for node in host["nodes"]:
        cpus = set(node["cpus"]) - reserved
        siblings = [s for s in (set(core) & cpus for core in host["cores"]) if s]
        pages = objects.NUMAPagesTopology(size_kb=PAGE_KIB, total=node["mem_mib"] // PAGE_MIB, used=0, reserved=0)
        cells.append(objects.NUMACell(
            id=node["id"], socket=node["socket"], cpuset=set(), pcpuset=cpus, pinned_cpus=set(), siblings=siblings,
            cpu_usage=0, memory=node["mem_mib"], memory_usage=0, mempages=[pages],
            network_metadata=objects.NetworkMetadata(physnets=set(), tunneled=False)))
    return objects.NUMATopology(cells=cells)


def instance(vcpus, mib, cells):
    """An instance of so many equal cells; what does not divide goes to the first ones."""
    pages = mib // PAGE_MIB
    out, first = [], 0
    for k in range(cells):
        cpus = vcpus // cells + (k < vcpus % cells)
        mem = (pages // cells + (k < pages % cells)) * PAGE_MIB
        out.append(objects.InstanceNUMACell(
            id=k, cpuset=set(), pcpuset=set(range(first, first + cpus)), memory=mem, pagesize=PAGE_KIB,
            cpu_policy="dedicated", cpu_thread_policy=None))
        first += cpus
    return objects.InstanceNUMATopology(cells=out)


def preplaced(event):
    cells = []
    for node, mib in event["mem"].items():
        cell = objects.InstanceNUMACell(
            id=int(node), cpuset=set(), pcpuset=set(range(len(event["cpus"]))), memory=mib, pagesize=PAGE_KIB,
            cpu_policy="dedicated", cpu_thread_policy=None)
        cell.cpu_pinning = dict(enumerate(event["cpus"]))
        cells.append(cell)
    return objects.InstanceNUMATopology(cells=cells)


def fewest_cells(host, vcpus, mib):
    cpus = max(len(set(n["cpus"]) - set(host["reserved_cpus"])) for n in host["nodes"])
    memory = max(n["mem_mib"] for n in host["nodes"])
    cells = 1
    while cells < len(host["nodes"]) and (cells * cpus < vcpus or cells * memory < mib):
        cells *= 2
    return cells


def decide(topology, vcpus, mib, cells, most):
    while cells <= most:
        try:
            fitted = hardware.numa_fit_instance_to_host(topology, instance(vcpus, mib, cells), {})
        except exception.NovaException:
            fitted = None
        if fitted is not None:
            return fitted, hardware.numa_usage_from_instance_numa(topology, fitted)
        cells *= 2
    return None, topology


def run(case, peer, retry, out):
    host = case["host"]
    topology = describe(host)
    running = {}
    for i, event in enumerate(case["events"]):
        if event["op"] == "depart":
            gone = running.pop(event["vm"], None)
            if gone is not None:
                topology = hardware.numa_usage_from_instance_numa(topology, gone, free=True)
            continue
        if event["op"] == "preplace":
            running[event["vm"]] = preplaced(event)
            topology = hardware.numa_usage_from_instance_numa(topology, running[event["vm"]])
            continue
        vcpus, mib = event["vcpus"], event["mem_mib"]
        cells = fewest_cells(host, vcpus, mib)
        most = min(len(host["nodes"]), vcpus) if retry else cells
        start = time.perf_counter_ns()
        fitted, topology = decide(topology, vcpus, mib, cells, most)
        ns = time.perf_counter_ns() - start
        if fitted is not None:
            running[event["vm"]] = fitted
        if out:
            print(json.dumps({"peer": peer, "case": case["name"], "i": i, "ok": fitted is not None, "ns": ns}), file=out)


def main():
    objects.register_all()
    nova.conf.CONF([], project="nova", default_config_files=[])
    nova.conf.CONF.set_override("packing_host_numa_cells_allocation_strategy", True, group="compute")
    for k, path in enumerate(sys.argv[1:]):
        with open(path) as f:
            case = json.load(f)
        if k == 0:
            run(case, "warm-up", False, None)
        run(case, "nova-strict-pack", False, sys.stdout)
        run(case, "nova-retry-pack", True, sys.stdout)


main()
