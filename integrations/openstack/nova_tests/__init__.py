"""Tests with the real Nova and its own fixtures: make openstack runs them."""
