"""Tests with the real Nova and its own fixtures: make openstack runs them."""

import nova.tests.functional  # noqa: F401  patches threads by eventlet, or forbids it: before all else
