# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Metrics of the kernel's counters: names, help texts and units.

The tables describe known counters. A counter that is in none of them is exported, too, under the kernel's name.
"""

from __future__ import annotations

import re
import typing as t

from .exposition import metric_part

# Directory of a port in sysfs -> prefix. The two share names: rxe's hw_counters has a link_downed, too.
PREFIXES = {"counters": "rdma_port_", "hw_counters": "rdma_hw_"}

# Resources in use, or at most in use (bnxt_re): these also decrease.
_GAUGE = re.compile(r"(active|watermark)_")


class Counter(t.NamedTuple):
    """A metric; the kernel's value times ``factor`` is in its unit."""

    metric: str
    kind: str
    help: str
    factor: int = 1


# In units of four octets (Documentation/ABI/stable/sysfs-class-infiniband); the metric is in bytes.
_DATA = ("port_rcv_data", "port_xmit_data", "port_rcv_data_64", "port_xmit_data_64")

_UNITS = {**dict.fromkeys(_DATA, "bytes"), "port_xmit_wait": "ticks"}

# InfiniBand Architecture Specification, PortCounters(Extended); Documentation/ABI/stable/sysfs-class-infiniband
_PORT = {
    "excessive_buffer_overrun_errors": "Flow control periods in a row in which the receive buffer overran",
    "link_downed": "Times that the link did not recover from an error and went down",
    "link_error_recovery": "Times that the link recovered from an error",
    "local_link_integrity_errors": "Times that local physical errors went over their threshold",
    "multicast_rcv_packets": "Multicast packets received, those with errors included",
    "multicast_xmit_packets": "Multicast packets sent, those with errors included",
    "port_rcv_constraint_errors": "Packets received and dropped because of a partition key or raw filter",
    "port_rcv_data": "Bytes received on all virtual lanes",
    "port_rcv_errors": "Packets received with an error",
    "port_rcv_packets": "Packets received on all virtual lanes, those with errors included",
    "port_rcv_remote_physical_errors": "Packets received with the mark of a bad packet (EBP)",
    "port_rcv_switch_relay_errors": "Packets received that the switch could not forward",
    "port_xmit_constraint_errors": "Packets not sent because of a partition key or raw filter",
    "port_xmit_data": "Bytes sent on all virtual lanes",
    "port_xmit_discards": "Packets to be sent and dropped because the port was down or congested",
    "port_xmit_packets": "Packets sent on all virtual lanes, those with errors included",
    "port_xmit_wait": "Ticks in which there was data to send and nothing was sent for lack of credits or arbitration",
    "symbol_error": "Minor errors of the link on one or more lanes",
    "unicast_rcv_packets": "Unicast packets received, those with errors included",
    "unicast_xmit_packets": "Unicast packets sent, those with errors included",
    "VL15_dropped": "Subnet management packets dropped for lack of buffers",
}
# drivers/infiniband/: hw/mlx5/counters.c, hw/irdma/verbs.c, hw/erdma/erdma_verbs.c (hw_ in Alibaba Cloud's driver),
# sw/rxe/rxe_hw_counters.c, and the vendors' descriptions
_HW = {
    "ack_deferred": "Acknowledgements delayed",
    "cnpHandled": "Congestion notification packets handled as the reaction point",
    "cnpIgnored": "Congestion notification packets ignored as the reaction point",
    "cnpSent": "Congestion notification packets sent as the notification point",
    "duplicate_request": "Duplicate requests received",
    "hw_rx_bytes_cnt": "Bytes received",
    "hw_rx_packets_cnt": "Packets received",
    "hw_tx_bytes_cnt": "Bytes sent",
    "hw_tx_packets_cnt": "Packets sent",
    "implied_nak_seq_err": "Times that the requester took an acknowledgement for a lost one before it",
    "ip4InOctets": "Bytes of IPv4 packets received over RDMA",
    "ip4OutOctets": "Bytes of IPv4 packets sent over RDMA",
    "ip6InOctets": "Bytes of IPv6 packets received over RDMA",
    "ip6OutOctets": "Bytes of IPv6 packets sent over RDMA",
    "iwInRdmaReads": "RDMA reads received",
    "iwInRdmaSends": "RDMA sends received",
    "iwInRdmaWrites": "RDMA writes received",
    "iwOutRdmaReads": "RDMA reads sent",
    "iwOutRdmaSends": "RDMA sends sent",
    "iwOutRdmaWrites": "RDMA writes sent",
    "link_downed": "Times that the link went down",
    "local_ack_timeout_err": "Times that the acknowledgement timer of a queue pair ran out at the sender",
    "np_cnp_sent": "Congestion notification packets sent as the notification point",
    "np_ecn_marked_roce_packets": "RoCE packets received with the mark of congestion (ECN)",
    "out_of_buffer": "Packets dropped because a queue pair had no receive work request",
    "out_of_seq_request": "Requests received out of sequence",
    "out_of_sequence": "Packets received out of sequence",
    "packet_seq_err": "Negative acknowledgements received for a packet out of sequence",
    "rcvd_bytes": "Bytes received",
    "rcvd_pkts": "Packets received",
    "rcvd_seq_err": "Negative acknowledgements received for a packet out of sequence",
    "req_cqe_error": "Requests completed with an error",
    "req_cqe_flush_error": "Requests completed as flushed",
    "req_remote_access_errors": "Requests refused by the other side for lack of access",
    "req_remote_invalid_request": "Requests that the other side found invalid",
    "resp_cqe_error": "Responses completed with an error",
    "resp_cqe_flush_error": "Responses completed as flushed",
    "resp_local_length_error": "Responses with a local length error",
    "resp_remote_access_errors": "Requests of the other side refused for lack of access",
    "rnr_nak_retry_err": "Negative acknowledgements received because the receiver was not ready",
    "roce_adp_retrans": "Adaptive retransmissions of RoCE",
    "roce_adp_retrans_to": "Times that RoCE traffic reached its timeout with adaptive retransmission",
    "roce_slow_restart": "Times that the slow restart of RoCE was used",
    "roce_slow_restart_cnps": "Congestion notification packets sent by the slow restart of RoCE",
    "roce_slow_restart_trans": "Times that the slow restart of RoCE went over to slow",
    "rp_cnp_handled": "Congestion notification packets handled as the reaction point",
    "rp_cnp_ignored": "Congestion notification packets ignored as the reaction point",
    "rx_atomic_requests": "Atomic requests received",
    "rx_bytes": "Bytes received",
    "rx_bytes_cnt": "Bytes received",
    "rx_icrc_encapsulated": "RoCE packets received with a wrong invariant checksum",
    "rx_packets_cnt": "Packets received",
    "rx_pkts": "Packets received",
    "rx_read_requests": "Read requests received",
    "rx_write_requests": "Write requests received",
    "send_rnr_err": "Negative acknowledgements sent because the receiver was not ready",
    "sent_bytes": "Bytes sent",
    "sent_pkts": "Packets sent",
    "tcpRetransSegs": "Segments sent again",
    "tx_bytes": "Bytes sent",
    "tx_bytes_cnt": "Bytes sent",
    "tx_packets_cnt": "Packets sent",
    "tx_pkts": "Packets sent",
}
_TEXTS = {"counters": _PORT, "hw_counters": _HW}

_known: dict[tuple[str, str], Counter] = {}


def counter(place: str, name: str) -> Counter:
    """Return the metric of a file in one of a port's directories."""
    definition = _known.get((place, name))
    if definition is None:
        definition = _known[place, name] = _make(place, name)
    return definition


def _make(place: str, name: str) -> Counter:
    part = metric_part(name)
    if place == "counters" and part.startswith("port_"):
        part = part[5:]
    factor = 1
    if place == "counters":
        unit = _UNITS.get(name)
        part += "_" + unit if unit else ""
        factor = 4 if unit == "bytes" else 1
    text = _TEXTS[place].get(name)
    text = "%s (%s of %s)" % (text or "What the driver counts under this name", name, place)
    if place == "hw_counters" and _GAUGE.match(name):
        return Counter(PREFIXES[place] + part, "gauge", text, factor)
    part = part[:-6] if part.endswith("_total") else part
    return Counter("%s%s_total" % (PREFIXES[place], part), "counter", text, factor)


__all__ = ("PREFIXES", "Counter", "counter")
