# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The text format, and what counters are called in it."""

from __future__ import annotations

import pytest

from ansible_collections.rdmaops.gpu_fabric.roles.rdma_exporter.files.rdma_exporter import exposition
from ansible_collections.rdmaops.gpu_fabric.roles.rdma_exporter.files.rdma_exporter.counters import counter
from ansible_collections.rdmaops.gpu_fabric.tests.unit.roles.rdma_exporter.tree import HW, PORT


def test_samples_of_a_metric_stand_together() -> None:
    families = exposition.Families()
    families.gauge("b", "one", 1, exposition.labels({"x": "1"}))
    families.counter("a_total", "two\nlines \\", 2)
    families.gauge("b", "one", 2.5, exposition.labels({"x": "2", "empty": ""}))
    families.declare("c", "gauge", "has no sample")
    assert families.render().decode() == (
        "# HELP a_total two\\nlines \\\\\n# TYPE a_total counter\na_total 2\n"
        '# HELP b one\n# TYPE b gauge\nb{x="1"} 1\nb{x="2"} 2.5\n'
    )


def test_labels_are_escaped() -> None:
    assert exposition.labels({"a": 'x"\\\n', "b": "\udcff"}) == '{a="x\\"\\\\\\n",b="?"}'.replace("?", "�")
    assert exposition.labels({"a": ""}) == ""


# directory, kernel's name, metric, kind, factor
NAMES = [
    ("counters", "port_rcv_data", "rdma_port_rcv_data_bytes_total", "counter", 4),
    ("counters", "port_xmit_data", "rdma_port_xmit_data_bytes_total", "counter", 4),
    ("counters", "port_xmit_wait", "rdma_port_xmit_wait_ticks_total", "counter", 1),
    ("counters", "port_rcv_packets", "rdma_port_rcv_packets_total", "counter", 1),
    ("counters", "symbol_error", "rdma_port_symbol_error_total", "counter", 1),
    ("counters", "VL15_dropped", "rdma_port_vl15_dropped_total", "counter", 1),
    ("counters", "link_downed", "rdma_port_link_downed_total", "counter", 1),
    ("hw_counters", "link_downed", "rdma_hw_link_downed_total", "counter", 1),
    ("hw_counters", "np_cnp_sent", "rdma_hw_np_cnp_sent_total", "counter", 1),
    ("hw_counters", "tx_bytes", "rdma_hw_tx_bytes_total", "counter", 1),
    ("hw_counters", "port_xmit_data", "rdma_hw_port_xmit_data_total", "counter", 1),
    ("hw_counters", "of-a.New driver", "rdma_hw_of_a_new_driver_total", "counter", 1),
    ("hw_counters", "seen_total", "rdma_hw_seen_total", "counter", 1),
    ("hw_counters", "active_qps", "rdma_hw_active_qps", "gauge", 1),
    ("hw_counters", "watermark_qps", "rdma_hw_watermark_qps", "gauge", 1),
]


@pytest.mark.parametrize(("directory", "name", "metric", "kind", "factor"), NAMES)
def test_names(directory: str, name: str, metric: str, kind: str, factor: int) -> None:
    entry = counter(directory, name)
    assert (entry.metric, entry.kind, entry.factor) == (metric, kind, factor)
    assert entry.help.endswith(f"({name} of {directory})")


def test_common_counters_are_explained_and_have_names_of_their_own() -> None:
    entries = [counter("counters", name) for name in PORT] + [counter("hw_counters", name) for name in HW]
    assert len({entry.metric for entry in entries}) == len(PORT) + len(HW)
    assert [entry.help for entry in entries if entry.help.startswith("What the driver counts")] == [
        "What the driver counts under this name (rx_dct_connect of hw_counters)"
    ]
