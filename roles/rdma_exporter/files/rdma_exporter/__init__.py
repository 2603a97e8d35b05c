# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Prometheus exporter of all RDMA counters in all network namespaces of a node, in two processes.

`look` has the rights that it takes to look, and no port; `serve` answers HTTP, and has no rights. handover.py is what
goes from one to the other.

Python 3.8 and its standard library, and what `look` shares with the modules of the collection (_rdma and _netns).
"""
