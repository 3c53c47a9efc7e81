"""A weigher and a filter for Nova's [filter_scheduler]; docs/openstack.md says how to install them."""

from __future__ import annotations

import threading
from typing import Any, Iterable, Iterator, Optional, Sequence

import nova.conf
from nova.scheduler import filters
from nova.scheduler import utils
from nova.scheduler import weights
from oslo_config import cfg
from oslo_log import log as logging

from homenode_nova import fit
from homenode_nova import rooms

LOG = logging.getLogger(__name__)
CONF = nova.conf.CONF

GROUP = cfg.OptGroup("homenode", title="homenode", help="How the scheduler asks each compute host's homenode.")
OPTIONS = [
    cfg.StrOpt(
        "url",
        default="https://{node}:4663",
        help="Where the homenode of a host listens (api: listen in its homenode.yaml). {host} is the "
        "name of the nova-compute service, {node} that of the hypervisor, {ip} its address.",
    ),
    cfg.StrOpt("ca_file", default="", help="Certificates that sign those of the daemons, PEM; empty: the system's."),
    cfg.StrOpt("cert_file", default="", help="The scheduler's own certificate, PEM, which client_ca of the daemons has signed."),
    cfg.StrOpt("key_file", default="", help="The key of cert_file, PEM; empty: it is in cert_file."),
    cfg.StrOpt("token_file", default="", help="File with the token that the daemons ask for; empty: none."),
    cfg.FloatOpt("timeout", default=1.0, min=0.05, max=30, help="Longest that a decision waits for all hosts together, in seconds."),
    cfg.FloatOpt("fresh", default=2.0, min=0, max=60, help="How long an answer stands before a host is asked again, in seconds. A silent host is asked again after 10 s."),
    cfg.FloatOpt("stale", default=60.0, min=0, max=3600, help="How long the last answer of a host that is silent now still counts, in seconds."),
    cfg.FloatOpt(
        "weight_multiplier",
        default=10.0,
        help="Weight of a host on one node of which the guest fits. 0 turns the weigher off; "
        "homenode_weight_multiplier in the metadata of an aggregate goes before it.",
    ),
]
CONF.register_group(GROUP)
CONF.register_opts(OPTIONS, group=GROUP)

_lock = threading.Lock()
_rooms: Optional[rooms.Rooms] = None


def _all() -> rooms.Rooms:
    """One for all weighers and filters of the process: each host is asked once."""
    global _rooms
    with _lock:
        if _rooms is None:
            o = CONF.homenode
            reader = rooms.Reader(o.ca_file, o.cert_file, o.key_file, o.token_file, o.timeout)
            _rooms = rooms.Rooms(reader, fresh=o.fresh, stale=o.stale, within=o.timeout, log=LOG)
        return _rooms


def forget() -> None:
    """Begins anew, with the configuration as it is now."""
    global _rooms
    with _lock:
        _rooms = None


def _url(host: Any) -> str:
    ip = str(host.host_ip or "")
    known = {"{host}": host.host, "{node}": host.nodename, "{ip}": f"[{ip}]" if ":" in ip else ip}
    url = CONF.homenode.url
    for key, value in known.items():
        url = url.replace(key, value)
    return url


def _ask(hosts: Iterable[Any]) -> list[Optional[fit.Room]]:
    """What is left on each host, in their order."""
    names = [f"{h.host}/{h.nodename}" for h in hosts]
    answers = _all().of(dict(zip(names, map(_url, hosts))))
    return [answers[name] for name in names]


# Page sizes that Nova writes for words (nova.virt.hardware, MEMPAGES_*).
_WORDS = {-1: 0, -2: fit.LARGE, -3: 0}


def _page(size: Optional[int]) -> int:
    """Ordinary pages are 4 KiB to 64 KiB, by the architecture."""
    if size is None:
        return 0
    return _WORDS.get(size, 0 if 0 <= size <= 64 else size)


def wants(spec: Any) -> list[fit.Cell]:
    """What a guest needs, by the NUMA nodes that it sees; one without any is one cell."""
    topology = spec.numa_topology
    if topology is not None and topology.cells:
        cells = []
        for cell in topology.cells:
            extra = len(cell.cpuset_reserved or ())
            cells.append(fit.Cell(len(cell.pcpuset) + extra, len(cell.cpuset), cell.memory << 10, _page(cell.pagesize)))
        return cells
    return [fit.Cell(0, spec.flavor.vcpus, spec.flavor.memory_mb << 10)]


class HomenodeWeigher(weights.BaseHostWeigher):
    """Prefers hosts on one node of which the guest fits, else hosts with room on near nodes.

    A host whose homenode is silent weighs as one without such room.
    """

    minval = 0.0
    maxval = 1.0

    def weight_multiplier(self, host_state: Any) -> float:
        multiplier: float = utils.get_weight_multiplier(
            host_state, "homenode_weight_multiplier", CONF.homenode.weight_multiplier
        )
        return multiplier

    def weigh_objects(self, weighed_obj_list: Sequence[Any], weight_properties: Any) -> list[float]:
        hosts = [o.obj for o in weighed_obj_list]
        if all(self.weight_multiplier(h) == 0 for h in hosts):
            return [0.0] * len(hosts)
        cells = wants(weight_properties)
        return [0.0 if room is None else fit.weight(fit.best(room, cells)) for room in _ask(hosts)]

    def _weigh_object(self, obj: Any, weight_properties: Any) -> float:
        room = _ask([obj])[0]
        return 0.0 if room is None else fit.weight(fit.best(room, wants(weight_properties)))


class HomenodeFilter(filters.BaseHostFilter):
    """Keeps wide guests off hosts that have no room for them on few and near nodes.

    It looks at guests larger than a node of the host or with NUMA nodes of their own, and at
    flavors with homenode:max_nodes or homenode:max_distance. All others pass, and so does every
    host whose homenode is silent.
    """

    RUN_ON_REBUILD = False

    def filter_all(self, filter_obj_list: Iterable[Any], spec_obj: Any) -> Iterator[Any]:
        hosts = list(filter_obj_list)
        if utils.request_is_rebuild(spec_obj):
            yield from hosts
            return
        nodes, distance, wrong = fit.limits(spec_obj.flavor.extra_specs or {})
        for text in wrong:
            LOG.warning("flavor %s: %s; it is not looked at", spec_obj.flavor.name, text)
        cells = wants(spec_obj)
        asked = nodes is not None or distance is not None
        for host, room in zip(hosts, _ask(hosts)):
            if room is None or not (asked or fit.wide(room, cells)):
                yield host
                continue
            found = fit.best(room, cells)
            if fit.within(found, nodes, distance):
                yield host
            else:
                LOG.debug("host %s: no room for the guest on few and near nodes (%s)", host.host, found)

    def host_passes(self, host_state: Any, filter_properties: Any) -> bool:
        return any(True for _ in self.filter_all([host_state], filter_properties))
