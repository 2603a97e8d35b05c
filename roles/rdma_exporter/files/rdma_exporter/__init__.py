# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Prometheus exporter of all RDMA counters in all network namespaces of a node.

Python 3.9 and its standard library, and what it shares with the collection's modules (plugins/module_utils/_rdma).
"""
