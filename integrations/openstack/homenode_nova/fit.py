"""On how few and how near NUMA nodes of a host does a guest fit?

Values in, values out: no network, no clock, nothing of Nova.
"""

from __future__ import annotations

import dataclasses
import itertools
from typing import Any, Callable, Mapping, Optional, Sequence

LOCAL = 10  # SLIT distance of a node to itself (ACPI, "System Locality Information Table")
UNKNOWN = 20  # what the kernel takes for a distance that no table tells (REMOTE_DISTANCE)

# Sets of nodes that are tried are so large at most where a host has more than 8 nodes. All
# sets of 8 nodes are 255.
MOST_OF_MANY = 3


@dataclasses.dataclass(frozen=True)
class Node:
    """What one NUMA node has, and what is left of it."""

    id: int
    cpus: int  # CPUs that dedicated work may still be given
    shared: float  # vCPUs that shared work may still be given
    memory: Optional[int]  # KiB in ordinary pages that nobody has booked; None unknown
    pages: Mapping[int, int]  # KiB in huge pages that nobody has booked, by page size in KiB
    all_cpus: int = 0  # online CPUs
    all_memory: int = 0  # KiB in all; 0 unknown


@dataclasses.dataclass(frozen=True)
class Room:
    """What is left on one host."""

    nodes: Sequence[Node]
    distances: Mapping[tuple[int, int], int]  # SLIT, by two node IDs

    def distance(self, a: int, b: int) -> int:
        return self.distances.get((a, b), LOCAL if a == b else UNKNOWN)


@dataclasses.dataclass(frozen=True)
class Cell:
    """A guest, or one NUMA node that it sees."""

    dedicated: int  # vCPUs with a CPU of their own
    shared: int  # vCPUs that float
    memory: int  # KiB
    page: int = 0  # page size in KiB; 0 ordinary pages, LARGE any huge page


LARGE = -1


@dataclasses.dataclass(frozen=True)
class Fit:
    """The nodes that a guest would have."""

    nodes: tuple[int, ...]
    farthest: int  # the largest SLIT distance between two of them


def read(document: Any) -> Room:
    """The answer to GET /v1/room of homenode. ValueError for anything else."""
    try:
        if document["schema"] not in ("homenode-room/2", "homenode-room/1"):  # what 1 has else, nothing here reads
            raise ValueError(f"schema {document['schema']!r}; want homenode-room/2")
        if document["host"] is None:
            raise ValueError("homenode has not looked at the host yet")
        host = {node["id"]: node for node in document["host"]["nodes"]}
        ids = list(host)
        distances = {
            (a, b): row[k]
            for a, row in zip(ids, document["host"]["distances"] or [])
            for k, b in enumerate(ids)
            if row[k] is not None
        }
        nodes = [
            Node(
                id=left["node"],
                cpus=left["cpus"],
                shared=float(left["shared_vcpus"]),
                memory=left["memory_kib"],
                pages={p["size_kib"]: p["free_kib"] for p in left["huge_pages"]},
                all_cpus=_count(host[left["node"]]["cpus"]),
                all_memory=host[left["node"]]["memory_kib"] or 0,
            )
            for left in document["nodes"]
        ]
    except (KeyError, TypeError, IndexError) as err:
        raise ValueError(f"no answer of homenode: {err!r}") from err
    return Room(nodes, distances)


def _count(cpus: str) -> int:
    """How many CPUs a list such as 0-3,8 has."""
    total = 0
    for part in filter(None, cpus.split(",")):
        first, _, last = part.partition("-")
        total += int(last or first) - int(first) + 1
    return total


def best(room: Room, cells: Sequence[Cell]) -> Optional[Fit]:
    """The fewest nodes that have what a guest needs, of these the nearest; None without any.

    One cell may lie on several nodes. Several lie on a node each, as Nova places them.
    """
    if not cells:
        return None
    if len(cells) > 1:
        return _nearest(room, len(cells), lambda nodes: _each(nodes, cells))
    most = len(room.nodes) if len(room.nodes) <= 8 else MOST_OF_MANY
    for count in range(1, most + 1):
        found = _nearest(room, count, lambda nodes: _together(nodes, cells[0]))
        if found:
            return found
    return None


def _nearest(room: Room, count: int, holds: Callable[[Sequence[Node]], bool]) -> Optional[Fit]:
    found: Optional[Fit] = None
    for nodes in itertools.combinations(room.nodes, count):
        far = max((room.distance(a.id, b.id) for a in nodes for b in nodes if a is not b), default=LOCAL)
        if (found is None or far < found.farthest) and holds(nodes):
            found = Fit(tuple(n.id for n in nodes), far)
    return found


def _together(nodes: Sequence[Node], cell: Cell) -> bool:
    """Do these nodes together hold it, and does it need memory or CPUs of each?"""
    if sum(n.cpus for n in nodes) < cell.dedicated or sum(n.shared for n in nodes) < cell.shared:
        return False
    if cell.page == 0:
        return any(n.memory is None for n in nodes) or sum(n.memory or 0 for n in nodes) >= cell.memory
    sizes = {size for n in nodes for size in n.pages} if cell.page == LARGE else {cell.page}
    return any(sum(_whole(n.pages.get(size, 0), size) for n in nodes) >= cell.memory for size in sizes)


def _whole(kib: int, size: int) -> int:
    return kib // size * size


def _each(nodes: Sequence[Node], cells: Sequence[Cell]) -> bool:
    """Is there a node for each cell?"""
    if not cells:
        return True
    return any(
        _together([node], cells[0]) and _each(_but(nodes, i), cells[1:]) for i, node in enumerate(nodes)
    )


def _but(nodes: Sequence[Node], i: int) -> list[Node]:
    return [n for k, n in enumerate(nodes) if k != i]


def wide(room: Room, cells: Sequence[Cell]) -> bool:
    """Is the guest larger than every node of the host, even an empty one?"""
    cpus = sum(c.dedicated + c.shared for c in cells)
    memory = sum(c.memory for c in cells)
    return len(cells) > 1 or not any(
        n.all_cpus >= cpus and (n.all_memory == 0 or n.all_memory >= memory) for n in room.nodes
    )


def weight(fit: Optional[Fit]) -> float:
    """1 for one node, less the farther the nodes are from each other, 0 for no room."""
    return 0.0 if fit is None else LOCAL / max(LOCAL, fit.farthest)


def within(fit: Optional[Fit], most_nodes: Optional[int], most_distance: Optional[int]) -> bool:
    """Is there room, on so few and so near nodes?"""
    return (
        fit is not None
        and (most_nodes is None or len(fit.nodes) <= most_nodes)
        and (most_distance is None or fit.farthest <= most_distance)
    )


def limits(extra_specs: Mapping[str, str]) -> tuple[Optional[int], Optional[int], list[str]]:
    """homenode:max_nodes and homenode:max_distance of a flavor, and what is wrong with them."""
    wrong = []

    def number(key: str, least: int) -> Optional[int]:
        text = extra_specs.get(key)
        if text is None:
            return None
        if not text.isdecimal() or int(text) < least:
            wrong.append(f"{key}={text!r}; want a number, {least} or more")
            return None
        return int(text)

    return number("homenode:max_nodes", 1), number("homenode:max_distance", LOCAL), wrong
