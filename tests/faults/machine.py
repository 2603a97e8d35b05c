# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node of the lab that tests may break: reset, cut off, booted again."""

from __future__ import annotations

import time

from ansible_collections.rdmaops.gpu_fabric.tests.lab.nodes import Lab

NODE = "gpu-1"
DROP_IN = "zz-rdmaops-ib_core-netns_mode.conf"
KEPT = "/var/tmp/initrd.stale"


class Machine:
    """One node, by the lab's own means."""

    def __init__(self, lab: Lab, name: str = NODE) -> None:
        self.lab = lab
        self.name = name
        self.image = "/boot/initrd.img-" + self.shell("uname -r")

    def shell(self, script: str, limit: float = 300, check: bool = True) -> str:
        return self.lab.ssh(self.name, script, limit=limit, check=check).stdout.strip()

    def mode(self) -> str:
        return self.shell("rdma system").split()[1]

    def boot_id(self) -> str:
        return self.shell("cat /proc/sys/kernel/random/boot_id")

    def force_ib_core_into_the_image(self) -> None:
        """Have the initramfs load ib_core, with the options that modprobe.d has now."""
        self.shell(
            "rm -f /etc/modprobe.d/*rdmaops*; grep -qx ib_core /etc/initramfs-tools/modules 2>&1 || "
            "echo ib_core >>/etc/initramfs-tools/modules; update-initramfs -u",
            limit=900,
        )

    def keep_image(self) -> None:
        self.shell(f"cp -a {self.image} {KEPT}")

    def drop_in_of_image(self) -> str:
        return self.shell(
            f"d=$(mktemp -d); unmkinitramfs {self.image} $d; find $d -name {DROP_IN} -exec cat {{}} +; rm -r $d"
        )

    def reset(self, package: str = "") -> None:
        """Reset the node: nothing of ours, the kept initramfs, mode shared, one package missing."""
        self.shell(
            "for n in $(ip netns list | cut -d' ' -f1); do ip netns del $n; done; "
            "find /etc /boot /var/lib/rdmaops -name '*rdmaops*' -type f -delete 2>/dev/null; "
            "rm -rf /var/lib/rdmaops; "
            f"if [ -e {KEPT} ]; then cp -a {KEPT} {self.image}; fi; "
            "systemctl daemon-reload; sync"
        )
        if package:
            self.shell(f"dpkg --remove --force-depends {package}")
        end = time.monotonic() + 60
        while self.mode() != "shared":
            self.shell("rdma system set netns shared", check=False)
            assert time.monotonic() < end, "the mode does not go back to shared"
            time.sleep(1)

    def half_written(self) -> list[str]:
        """Return files of ours that are not whole: without a header, or not ending in a line end."""
        script = (
            "for f in $(find /etc -name '*rdmaops*' -type f); do "
            'head -n1 "$f" | grep -q "Managed by Ansible (rdmaops.gpu_fabric)" || echo "$f"; '
            'test -z "$(tail -c1 "$f")" || echo "$f"; done; '
            f"unmkinitramfs {self.image} /run/whole >/dev/null || echo {self.image}; rm -rf /run/whole"
        )
        return self.shell(script).split()

    def wait_for(self, script: str, limit: float) -> None:
        end = time.monotonic() + limit
        while self.lab.ssh(self.name, script, limit=60, check=False).returncode != 0:
            assert time.monotonic() < end, f"never true on {self.name}: {script}"
            time.sleep(0.5)

    def cut_and_boot(self) -> None:
        self.lab.power(self.name, "cut")
        self.lab.power(self.name, "on")

    def reboot(self) -> None:
        boot = self.boot_id()
        self.lab.power(self.name, "reset")
        assert self.boot_id() != boot
