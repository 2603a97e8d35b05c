# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Keep every RDMA device in the network namespace of its network device (`python3 DIRECTORY`).

The kernel notifies the host's namespace when a network device arrives or leaves (RTNLGRP_LINK, rtnetlink(7)), so this
program waits for events.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import select
import signal
import socket
import sys
import time
import typing as t

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._errors import FabricError
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._rdma.drivers import pci_address
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._rdma_devices.follow import Follower, Host, Link
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._rdma_devices.link import DRIVERS

RTMGRP_LINK = 1
# A network plugin takes milliseconds between the two halves of a move, an emulated machine seconds.
FIRST_RETRY_S, LAST_RETRY_S = 0.2, 30.0


def log(text: str) -> None:
    print(text, flush=True)


def link(text: str) -> Link:
    name, _equals, rest = text.partition("=")
    kind, _comma, address = rest.partition(",")
    if not name or kind not in DRIVERS or pci_address(address) != address:
        raise argparse.ArgumentTypeError(
            "'%s' is not NAME=TYPE,PCI_ADDRESS with a TYPE of %s" % (text, ", ".join(DRIVERS))
        )
    return Link(name, kind, address)


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="rdma_attachment", description="Keeps RDMA devices with their network devices."
    )
    parser.add_argument("--include", action="append", default=[], metavar="DEVICE", help="only these; default: all")
    parser.add_argument("--exclude", action="append", default=[], metavar="DEVICE", help="never these")
    parser.add_argument(
        "--link", action="append", default=[], type=link, metavar="NAME=TYPE,PCI_ADDRESS", help="a software link"
    )
    parser.add_argument(
        "--once", action="store_true", help="do what is due now, then exit; status 1: not everything could be done"
    )
    parser.add_argument("--revision", default="unknown", help="the revision that this program reports")
    return parser


class Events:
    """Wakes up when a network device of the host's namespace arrives, leaves or changes."""

    def __init__(self) -> None:
        self.socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, socket.NETLINK_ROUTE)
        self.socket.bind((0, RTMGRP_LINK))

    def wait(self, seconds: float) -> bool:
        """Return whether there was an event within that time."""
        ready, _writable, _exceptional = select.select([self.socket], [], [], seconds)
        if not ready:
            return False
        try:
            while True:
                self.socket.recv(1 << 16, socket.MSG_DONTWAIT)
        except BlockingIOError:
            pass
        except OSError:
            pass  # ENOBUFS: there were more than the buffer holds (netlink(7))
        return True


@dataclasses.dataclass
class Pace:
    """The wait before the next look: short after an event, longer and longer while something stays undone."""

    wait: float = FIRST_RETRY_S

    def after(self, event: bool, done: bool) -> float:
        self.wait = LAST_RETRY_S if done else FIRST_RETRY_S if event else min(self.wait * 2, LAST_RETRY_S)
        return self.wait


def ready() -> None:
    """Notify systemd that the first look is over (sd_notify(3))."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if address:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notify:
            # An abstract address begins with a zero byte (unix(7)).
            notify.sendto(b"READY=1", "\0" + address[1:] if address[0] == "@" else address)


def main(argv: t.Sequence[str] | None = None) -> int:
    options = build_parser().parse_args(argv)
    signal.signal(signal.SIGTERM, lambda _number, _frame: sys.exit(0))
    events = Events()
    follower = Follower(options.link, options.include, options.exclude, Host(), log)
    log("revision %s" % options.revision)
    pace, event, last_problem, notified = Pace(), True, "", False
    while True:
        began = time.monotonic()
        try:
            done, problem = follower.once(), ""
        except (FabricError, OSError) as exc:
            done, problem = False, str(exc)
        if problem and problem != last_problem:
            log(problem)
        last_problem = problem
        if options.once:
            return 0 if done else 1
        if not notified:
            ready()
            notified = True
        # Its own changes are events, too, so it looks again.
        event = events.wait(pace.after(event, done))
        if event and time.monotonic() - began < FIRST_RETRY_S:
            time.sleep(FIRST_RETRY_S / 4)


if __name__ == "__main__":
    sys.exit(main())
