import json
import pathlib
import unittest

from homenode_nova import fit


def node(i, cpus=8, shared=8.0, gib=16, pages=(), **of_all):
    return fit.Node(i, cpus, shared, None if gib is None else gib << 20, dict(pages), **of_all)


def room(*nodes, near=()):
    return fit.Room(nodes, {pair: d for a, b, d in near for pair in ((a, b), (b, a))})


def pinned(cpus, gib=1, page=0):
    return fit.Cell(cpus, 0, gib << 20, page)


def floating(vcpus, gib=1):
    return fit.Cell(0, vcpus, gib << 20)


class FitTest(unittest.TestCase):
    def test_fewest_nodes_then_the_nearest(self):
        four = room(*(node(i, cpus=4) for i in range(4)), near=[(0, 1, 12), (2, 3, 11), (0, 2, 32), (0, 3, 32), (1, 2, 32), (1, 3, 32)])
        self.assertEqual(fit.Fit((0,), 10), fit.best(four, [pinned(4)]))
        self.assertEqual(fit.Fit((2, 3), 11), fit.best(four, [pinned(5)]))
        self.assertEqual(fit.Fit((0, 1, 2, 3), 32), fit.best(four, [pinned(16)]))
        self.assertIsNone(fit.best(four, [pinned(17)]))

    def test_memory_and_pages(self):
        r = room(node(0, gib=2, pages={2048: 8 << 20}), node(1, gib=16, pages={2048: 3 << 20, 1 << 20: 4 << 20}))
        self.assertEqual((1,), fit.best(r, [pinned(2, gib=4)]).nodes)
        self.assertEqual((0,), fit.best(r, [pinned(2, gib=4, page=2048)]).nodes)
        self.assertEqual((1,), fit.best(r, [pinned(2, gib=4, page=1 << 20)]).nodes)
        self.assertEqual((0,), fit.best(r, [pinned(2, gib=4, page=fit.LARGE)]).nodes)
        self.assertIsNone(fit.best(r, [pinned(2, gib=4, page=64)]))
        self.assertIsNotNone(fit.best(room(node(0, gib=None)), [pinned(2, gib=1000)]))  # unknown

    def test_classes_have_room_of_their_own(self):
        r = room(node(0, cpus=8, shared=0), node(1, cpus=0, shared=24))
        self.assertEqual((0,), fit.best(r, [pinned(8)]).nodes)
        self.assertEqual((1,), fit.best(r, [floating(20)]).nodes)
        self.assertEqual((0, 1), fit.best(r, [fit.Cell(4, 4, 1 << 20)]).nodes)  # mixed

    def test_cells_lie_on_a_node_each(self):
        r = room(node(0, cpus=2), node(1, cpus=6), node(2, cpus=4), near=[(0, 1, 11), (1, 2, 21), (0, 2, 31)])
        self.assertEqual(fit.Fit((0, 1), 11), fit.best(r, [pinned(2), pinned(2)]))
        self.assertEqual(fit.Fit((1, 2), 21), fit.best(r, [pinned(4), pinned(4)]))
        self.assertEqual(fit.Fit((1, 2), 21), fit.best(r, [pinned(4), pinned(6)]))  # uneven
        self.assertIsNone(fit.best(r, [pinned(6), pinned(6)]))
        self.assertIsNone(fit.best(r, [pinned(1)] * 4))

    def test_unknown_distances(self):
        self.assertEqual(20, fit.best(room(node(0, cpus=1), node(1, cpus=1)), [pinned(2)]).farthest)

    def test_many_nodes_are_searched_in_bounds(self):
        many = room(*(node(i, cpus=1) for i in range(64)))
        self.assertEqual(3, len(fit.best(many, [pinned(3)]).nodes))
        self.assertIsNone(fit.best(many, [pinned(4)]))

    def test_weights(self):
        self.assertEqual(1.0, fit.weight(fit.Fit((0,), 10)))
        self.assertEqual(0.5, fit.weight(fit.Fit((0, 1), 20)))
        self.assertEqual(0.0, fit.weight(None))

    def test_wide(self):
        r = room(node(0, cpus=0, all_cpus=8, all_memory=16 << 20))
        self.assertFalse(fit.wide(r, [pinned(8)]))
        self.assertTrue(fit.wide(r, [pinned(9)]))
        self.assertTrue(fit.wide(r, [floating(9)]))
        self.assertTrue(fit.wide(r, [pinned(1, gib=17)]))
        self.assertTrue(fit.wide(r, [pinned(1), pinned(1)]))

    def test_limits(self):
        self.assertEqual((2, 21, []), fit.limits({"homenode:max_nodes": "2", "homenode:max_distance": "21"}))
        self.assertEqual((None, None, []), fit.limits({"hw:numa_nodes": "2"}))
        self.assertEqual(
            (None, None, ["homenode:max_nodes='two'; want a number, 1 or more", "homenode:max_distance='9'; want a number, 10 or more"]),
            fit.limits({"homenode:max_nodes": "two", "homenode:max_distance": "9"}),
        )
        self.assertTrue(fit.within(fit.Fit((0, 1), 21), 2, 21))
        self.assertFalse(fit.within(fit.Fit((0, 1), 21), 1, None))
        self.assertFalse(fit.within(fit.Fit((0, 1), 21), None, 20))
        self.assertFalse(fit.within(None, None, None))


class ReadTest(unittest.TestCase):
    # Written by the daemon's own test (daemon, TestRoomForNova).
    document = json.loads((pathlib.Path(__file__).parent / "room.json").read_text())

    def test_the_daemons_answer(self):
        r = fit.read(self.document)
        self.assertEqual([0, 1], [n.id for n in r.nodes])
        first = r.nodes[0]
        self.assertEqual((4, 12.0, 4, 8 << 20), (first.cpus, first.shared, first.all_cpus, first.all_memory))
        self.assertEqual({2048: 1 << 20}, dict(first.pages))
        self.assertEqual(20, r.distances[0, 1])

    def test_anything_else_is_a_value_error(self):
        for bad in (None, [], {}, {"schema": "homenode-room/2"}, {**self.document, "host": None}, {**self.document, "nodes": [{}]}):
            with self.assertRaises(ValueError):
                fit.read(bad)


if __name__ == "__main__":
    unittest.main()
