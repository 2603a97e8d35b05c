# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What counters say of a measurement."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._fabric.host import Host
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._fabric.quiet import Measured, compare, parse, paths

# The head and lines of /proc/net/dev of Linux 6.18.
DEV = """\
Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed
    lo:     100       1    0    0    0     0          0         0      100       1    0    0    0     0       0          0
  eth0:%8d       2    0    0    0     0          0         0       50       3    0    0    0     0       0          0
  net1:    9000       2    0    0    0     0          0         0     9000       3    0    0    0     0       0          0
"""


# As sysfs has them: of Linux on an E810 (irdma) after a training, and of Alibaba Cloud's erdma on an idle instance. Of efa,
# the name is that of its driver (EFA_DEFINE_PORT_STATS in drivers/infiniband/hw/efa/efa_verbs.c).
PORTS: dict[str, dict[str, str]] = {
    "nothing": {},
    "mlx5_0": {"counters/port_xmit_data": "700\n"},
    "no PMA": {"counters/port_xmit_data": "N/A (no PMA)\n"},
    "rxe0": {"hw_counters/sent_pkts": "5\n"},
    "rxe1": {"hw_counters/sent_pkts": "5\n", "hw_counters/sent_bytes": "5210\n"},
    "irdma0": {"hw_counters/ip4OutOctets": "591342210478\n", "hw_counters/ip6OutOctets": "0\n"},
    "erdma_0": {"hw_counters/hw_tx_bytes_cnt": "11448\n"},
    "efa_0": {"hw_counters/tx_bytes": "11448\n"},
}


@pytest.mark.parametrize("files", PORTS.values(), ids=PORTS)
def test_parse(files: dict[str, str]) -> None:
    texts = [
        next((text for file, text in files.items() if path.endswith("/ports/1/" + file)), "") for path in paths("d", 1)
    ]
    counted = {file.partition("/")[2]: int(text) for file, text in files.items() if text[0] != "N"}
    assert parse([DEV % 1000, *texts[1:]]) == {"netdevs": {"lo": 200, "eth0": 1050, "net1": 18000}, "port": counted}


@pytest.mark.parametrize("text", ["", "\n\nno: list\n", "\n\n  eth0: x 2 3 4 5 6 7 8 9\n"])
def test_what_is_no_list_of_devices(text: str) -> None:
    with pytest.raises(ValueError, match="."):
        parse([text, "", ""])


def test_the_hosts_own() -> None:
    texts = Host().texts(paths("mlx5_0", 1))
    assert "lo" in parse(texts)["netdevs"]
    assert set(texts[1:]) == {""}


def seen(eth0: int = 0, words: int | None = 0, packets: int | None = None, **more: int) -> dict[str, t.Any]:
    counted = {"port_xmit_data": words, "sent_pkts": packets}
    port = {name: value for name, value in counted.items() if value is not None}
    return {"netdevs": {"lo": 9**9 * words if words else 0, "eth0": eth0, "net1": 0, **more}, "port": port}


def counted(**port: int) -> dict[str, t.Any]:
    return {"netdevs": {"eth0": 0}, "port": port}


ELSEWHERE = "mlx5_0 counted 996 of the 1000 bytes that were sent: the rest took another path"
CASES: list[tuple[dict[str, t.Any], dict[str, t.Any], int | None, bool | None, str | None]] = [
    # before, after, sent, quiet, why
    (seen(5), seen(2005, 250), 1000, True, None),
    (seen(5), seen(2006, 250), 1000, False, "eth0 carried 2001 bytes in 2.0 s, and 2000 are allowed outside the rails"),
    (seen(), seen(0, 249), 1000, False, ELSEWHERE),
    (seen(net1=0), seen(0, 250, net1=10**9), 1000, True, None),
    (seen(0, None, 7), seen(0, None, 17), 1000, None, "mlx5_0 counts no bytes, only packets (10)"),
    (seen(0, None, 7), seen(9999, None, 17), 1000, False, "eth0 carried 9999 bytes in 2.0 s"),
    (seen(0, None), seen(0, None), 1000, None, "mlx5_0 counts no bytes"),
    (seen(0, 5), seen(0, None), 1000, None, "mlx5_0 counts no bytes"),
    (seen(), seen(0, 250), None, None, "the number of bytes sent is unknown"),
    (seen(0, 9), seen(0, 8), 1000, None, "counters went backwards: they were reset"),
    (seen(9), seen(0, 250), 1000, None, "counters went backwards: they were reset"),
    (seen(), seen(0, 0xFFFFFFFF), 1000, None, "a counter of mlx5_0 is full"),
    (seen(), seen(0, 250, eth1=10**9), 1000, True, None),
    # irdma: IPv4 and IPv6 are counted apart.
    (counted(ip4OutOctets=7, ip6OutOctets=5), counted(ip4OutOctets=907, ip6OutOctets=105), 1000, True, None),
    (
        counted(ip4OutOctets=7, ip6OutOctets=5),
        counted(ip4OutOctets=907, ip6OutOctets=104),
        1000,
        False,
        "mlx5_0 counted 999 of",
    ),
    (counted(ip4OutOctets=7, ip6OutOctets=5), counted(ip4OutOctets=2007), 1000, None, "mlx5_0 counts no bytes"),
    (
        counted(ip4OutOctets=7, ip6OutOctets=5),
        counted(ip4OutOctets=0, ip6OutOctets=0),
        1000,
        None,
        "counters went backwards",
    ),
    *(
        row
        for name in ("hw_tx_bytes_cnt", "tx_bytes_cnt", "tx_bytes")  # erdma, in both its forms; bnxt_re and efa
        for row in (
            (counted(**{name: 11448}), counted(**{name: 12448}), 1000, True, None),
            (counted(**{name: 11448}), counted(**{name: 11448}), 1000, False, "mlx5_0 counted 0 of the 1000 bytes"),
        )
    ),
]


@pytest.mark.parametrize(("before", "after", "sent", "quiet", "why"), CASES, ids=range(len(CASES)))
def test_compare(
    before: dict[str, t.Any], after: dict[str, t.Any], sent: int | None, quiet: bool | None, why: str | None
) -> None:
    traffic = compare(before, after, Measured("mlx5_0", ["net1"], sent, 2.0, 1000))
    assert traffic["quiet"] is quiet
    assert traffic["why"] is None if why is None else traffic["why"].startswith(why)
    assert (traffic["allowed_bytes"], traffic["sent_bytes"]) == (2000, sent)
    assert list(traffic["ethernet_bytes"]) == ["eth0"]
