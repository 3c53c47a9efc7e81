import threading
import unittest

from homenode_nova import fit
from homenode_nova import rooms

EMPTY = fit.Room((), {})


class Log:
    def __init__(self):
        self.lines = []

    def warning(self, text, *values):
        self.lines.append(text % values)

    info = warning


class RoomsTest(unittest.TestCase):
    def setUp(self):
        self.now, self.log, self.asked, self.answer = 0.0, Log(), [], lambda url: EMPTY

    def of(self, *names, **options):
        if not hasattr(self, "rooms"):
            def ask(url):
                self.asked.append(url)
                return self.answer(url)

            self.rooms = rooms.Rooms(ask, log=self.log, clock=lambda: self.now, **{"within": 5.0, **options})
        return self.rooms.of({n: "https://" + n for n in names})

    def silent(self, url):
        raise OSError("no route")

    def test_answers_are_kept_for_a_while(self):
        self.of("a", "b")
        self.of("a", "b")
        self.assertEqual(["https://a", "https://b"], sorted(self.asked))
        self.now = 2.0
        self.of("a")
        self.assertEqual(3, len(self.asked))

    def test_a_silent_host_is_said_once_and_its_last_answer_counts_for_a_while(self):
        self.of("a")
        self.answer, self.now = self.silent, 5.0
        self.assertEqual({"a": EMPTY}, self.of("a"))
        self.now = 20.0
        self.assertEqual({"a": EMPTY}, self.of("a"))
        self.now = 61.0
        self.assertEqual({"a": None}, self.of("a"))
        self.assertEqual(["homenode of host a does not answer; the host is scheduled without it: no route"], self.log.lines)
        self.answer, self.now = (lambda url: EMPTY), 80.0
        self.assertEqual({"a": EMPTY}, self.of("a"))
        self.assertEqual("homenode of host a answers again", self.log.lines[-1])

    def test_a_silent_host_rests(self):
        self.answer = self.silent
        self.of("a")
        self.now = 9.9
        self.of("a")
        self.assertEqual(1, len(self.asked))
        self.now = 10.0
        self.of("a")
        self.assertEqual(2, len(self.asked))

    def test_nobody_waits_for_a_host_that_hangs(self):
        held = threading.Event()
        self.addCleanup(held.set)
        self.answer = lambda url: EMPTY if url == "https://b" else held.wait() and EMPTY
        self.assertEqual({"a": None, "b": EMPTY}, self.of("a", "b", within=0.2))
        self.assertEqual(["homenode of host a does not answer; the host is scheduled without it: no answer within 0.2 s"], self.log.lines)
        self.now = 100.0  # and it is asked once at a time
        self.of("a", "b")
        self.assertEqual(1, self.asked.count("https://a"))

    def test_urls(self):
        for bad in ("ftp://a", "a:4663", "https://a:port"):
            with self.assertRaises(ValueError):
                rooms.Reader()(bad)


if __name__ == "__main__":
    unittest.main()
