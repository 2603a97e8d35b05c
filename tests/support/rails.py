# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Programs that show which of a host's rails answers, and by which its packets leave. They run on hosts."""

from __future__ import annotations

# DEVICE SOURCE TARGET SECONDS: asks who has the target, and prints the hardware addresses that answer in that time.
ARP = r"""
import socket, sys, time
device, source, target, seconds = sys.argv[1:]
with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x0806)) as raw:
    raw.bind((device, 0x0806))
    mac = raw.getsockname()[4]
    addresses = [socket.inet_aton(text) for text in (source, target)]
    # Broadcast, ARP; Ethernet, IPv4, lengths 6 and 4, request (RFC 826).
    header = b"\xff" * 6 + mac + bytes.fromhex("08060001080006040001")
    raw.send(header + mac + addresses[0] + bytes(6) + addresses[1])
    raw.settimeout(0.2)
    answers, end = set(), time.monotonic() + float(seconds)
    while time.monotonic() < end:
        try:
            frame = raw.recv(2048)
        except socket.timeout:
            continue
        if frame[20:22] == b"\0\2" and frame[28:32] == addresses[1]:
            answers.add(frame[22:28].hex(":"))
print("\n".join(sorted(answers)))
"""

# SOURCE TARGET: sends a hundred datagrams, and prints as JSON how many packets each rail sent meanwhile.
SEND = r"""
import json, pathlib, socket, sys, time
def sent():
    places = pathlib.Path("/sys/class/net").glob("rail*")
    return {place.name: int((place / "statistics/tx_packets").read_text()) for place in places}
before = sent()
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagrams:
    datagrams.bind((sys.argv[1], 0))
    for _number in range(100):
        datagrams.sendto(b"x", (sys.argv[2], 9))
# virtio_net counts a packet when the hypervisor has taken it (free_old_xmit() in drivers/net/virtio_net.c).
end = time.monotonic() + 10
while True:
    after = sent()
    counts = {name: after[name] - before[name] for name in after}
    if sum(counts.values()) >= 100 or time.monotonic() > end:
        break
    time.sleep(0.1)
print(json.dumps(counts))
"""

__all__ = ["ARP", "SEND"]
