# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""sysctl.d as this collection evaluates it, against systemd-sysctl itself, on random trees."""

from __future__ import annotations

import random
import subprocess
from pathlib import Path

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._sysctl import config
from ansible_collections.rdmaops.gpu_fabric.tests.support import need_root, skip_or_fail

PROGRAM = Path("/lib/systemd/systemd-sysctl")
DEVICES = ("rail0", "rail1", "eth1.100")
NAMES = ("arp_ignore", "arp_announce")
KEYS = [f"net/ipv4/conf/{device}/{name}" for device in DEVICES for name in NAMES]
DIRECTORIES = ("etc/sysctl.d", "run/sysctl.d", "usr/lib/sysctl.d")
FILES = ("10-a.conf", "50-b.conf", "zz-c.conf", "not-read", ".hidden.conf")
# In a network and a mount namespace of its own: trees one after another, and what each has made of the keys.
APPLY = """
set -e
mount -t tmpfs tmpfs /run
mkdir /run/sysctl.d
for device in rail0 rail1 eth1.100; do ip link add "$device" type veth; done
root=$1
shift
for tree in "$root"/*; do
    for directory in etc/sysctl.d run/sysctl.d usr/lib/sysctl.d; do mount --bind "$tree/$directory" "/$directory"; done
    for key in "$@"; do echo 0 > "/proc/sys/$key"; done
    /lib/systemd/systemd-sysctl --prefix=/net/ipv4/conf
    line=$(basename "$tree")
    for key in "$@"; do line="$line $(cat "/proc/sys/$key")"; done
    echo "$line"
    for directory in etc/sysctl.d run/sysctl.d usr/lib/sysctl.d; do umount "/$directory"; done
done
"""


def line(rng: random.Random) -> str:
    device = rng.choice([*DEVICES, "*", "rail?", "rail[01]", "eth*", "all"])
    if rng.random() < 0.4:
        key = f"net/ipv4/conf/{device}/{rng.choice(NAMES)}"
    else:
        key = f"net.ipv4.conf.{device.replace('.', '/')}.{rng.choice(NAMES)}"
    if rng.random() < 0.1:
        return f"-{key}"
    space = rng.choice(["", " ", "\t"])
    mark = rng.choice(["", "", "", "-", "#", "; "])
    return f"{space}{mark}{key}{space}={space}{rng.randint(1, 3)}{space}"


def write(tree: Path, rng: random.Random) -> None:
    for directory in DIRECTORIES:
        (tree / directory).mkdir(parents=True)
        for name in FILES:
            if rng.random() < 0.5:
                (tree / directory / name).write_text("\n".join(line(rng) for _number in range(rng.randint(0, 4))))
            elif rng.random() < 0.15:
                (tree / directory / name).symlink_to("/dev/null")


def test_random_trees(tmp_path: Path) -> None:
    need_root()
    if not PROGRAM.exists():
        skip_or_fail(f"{PROGRAM} is not installed")
    rng = random.Random(26)
    trees = [tmp_path / f"{number:03}" for number in range(60)]
    for tree in trees:
        write(tree, rng)
    argv = ["unshare", "--net", "--mount", "bash", "-c", APPLY, "apply", str(tmp_path), *KEYS]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL)
    assert done.returncode == 0, done.stderr
    applied = dict(row.split(" ", 1) for row in done.stdout.splitlines())
    compared = 0
    for tree in trees:
        result = config.read(str(tree))
        assert result.unreadable == []
        winners = [config.winner(result.assignments, key) for key in KEYS]
        expected = [winner.value if winner else "0" for winner in winners]
        texts = {str(path.relative_to(tree)): path.read_text() for path in tree.rglob("*.conf")}
        assert applied[tree.name].split() == expected, texts
        compared += len([winner for winner in winners if winner])
    assert compared > 100
