"""The scheduler's reader and the real daemon, over mutual TLS. HOMENODE is the program."""

import os
import subprocess
import tempfile
import time
import unittest

from homenode_nova import fit
from homenode_nova import rooms
from nova_tests import hosts

HOMENODE = os.environ.get("HOMENODE", "")
URL = "https://127.0.0.1:48663"


@unittest.skipUnless(HOMENODE, "HOMENODE names no program")
class DaemonTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.ca, server, self.client = hosts.certificates(folder.name)
        config = os.path.join(folder.name, "homenode.yaml")
        with open(config, "w") as f:
            f.write(
                f"mode: observe\nsocket: {folder.name}/sock\nstate_dir: {folder.name}/state\nlibvirt: {{manage: none}}\n"
                f"api: {{listen: '127.0.0.1:48663', cert: {server}, key: {server}, client_ca: {self.ca}}}\n"
            )
        daemon = subprocess.Popen([HOMENODE, "daemon", "--config", config], stderr=subprocess.DEVNULL)
        self.addCleanup(daemon.wait)
        self.addCleanup(daemon.terminate)

    def test_room_of_this_machine(self):
        read = rooms.Reader(self.ca, self.client, timeout=5)
        end = time.monotonic() + 60
        while True:
            try:
                room = read(URL)
                break
            except (OSError, ValueError):  # it has not listened or looked yet
                if time.monotonic() > end:
                    raise
                time.sleep(0.2)
        self.assertGreaterEqual(len(room.nodes), 1)
        self.assertGreater(sum(n.all_cpus for n in room.nodes), 0)
        self.assertIsNone(fit.best(room, [fit.Cell(100000, 0, 1)]))
        with self.assertRaises((OSError, ValueError)):
            rooms.Reader(self.ca, timeout=5)(URL)  # without a certificate
