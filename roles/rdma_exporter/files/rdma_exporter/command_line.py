# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Options that both parts have, named as in node_exporter if it has them."""

from __future__ import annotations

import argparse
import signal
import sys

SOCKET = "/run/rdma_exporter/look.sock"
TIMEOUT = 8.0


def build_parser(part: str, description: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="rdma_exporter " + part, description=description)
    parser.add_argument("--look.socket", dest="socket", default=SOCKET, metavar="PATH", help="default: %(default)s")
    parser.add_argument(
        "--collector.timeout", dest="total", type=seconds, default=TIMEOUT, metavar="SECONDS",
        help="for a look; less than Prometheus' scrape_timeout (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument("--revision", default="unknown", help="the revision that this exporter reports")
    return parser


def seconds(text: str) -> float:
    value = float(text)
    if not 0 < value < 3600:
        raise argparse.ArgumentTypeError("%s: seconds, above 0" % text)
    return value


def log(text: str) -> None:
    """Write one line to the journal."""
    line = " ".join(text.split()).encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    print(line, file=sys.stderr, flush=True)


def end_on_sigterm() -> None:
    """Exit on SIGTERM: systemd and the kubelet stop a program this way."""
    signal.signal(signal.SIGTERM, lambda _number, _frame: sys.exit(0))


__all__ = ("SOCKET", "TIMEOUT", "build_parser", "end_on_sigterm", "log", "seconds")
