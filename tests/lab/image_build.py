# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""One build of the image: packages, the kernel's driver, the guest's files, a disk, and a first boot."""

from __future__ import annotations

import concurrent.futures
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import time
import typing as t

from . import aptsource, config, qemu
from .progress import LabError, run_logged, say, step, tail

MIB = 1024 * 1024
ROOT_OFFSET = 2 * MIB
FIRST_BOOT_DONE = "LAB-FIRST-BOOT-OK"
# Type ids of the GPT: BIOS boot partition, Linux file system.
LAYOUT = """label: gpt
start=2048, size=2048, type=21686148-6449-6E6F-744E-656564454649
start=4096, type=0FC63DAF-8483-4772-8E79-3D69D8477DE4
"""
# Timers would start work behind a test's back; the rest only costs time under emulation.
MASKED = (
    "apt-daily.timer",
    "apt-daily-upgrade.timer",
    "dpkg-db-backup.timer",
    "e2scrub_all.timer",
    "e2scrub_reap.service",
    "fstrim.timer",
    "man-db.timer",
    "getty@tty1.service",
    "serial-getty@ttyS0.service",
    "sys-kernel-debug.mount",
    "sys-kernel-tracing.mount",
    "sys-fs-fuse-connections.mount",
    "sys-kernel-config.mount",
    "dev-mqueue.mount",
    "dev-hugepages.mount",
    "proc-sys-fs-binfmt_misc.automount",
    "modprobe@drm.service",
    "modprobe@efi_pstore.service",
    "modprobe@fuse.service",
    "modprobe@configfs.service",
    "systemd-binfmt.service",
    "systemd-pstore.service",
    "systemd-rfkill.service",
    "systemd-rfkill.socket",
    "systemd-hwdb-update.service",
    "systemd-journal-catalog-update.service",
    "systemd-update-utmp.service",
    "systemd-logind.service",
    "ldconfig.service",
    "systemd-tpm2-setup.service",
    "systemd-tpm2-setup-early.service",
    "grub-common.service",
    "keyboard-setup.service",
    "console-setup.service",
)
# Each reload of systemd runs all of its generators, six seconds of fourteen under emulation; a lab node needs this one.
GENERATORS_KEPT = ("systemd-fstab-generator",)


# Files of packages that a node does without: which are not read there, and udev's data for hardware that QEMU
# does not show. The initramfs carries the latter too, and under emulation that costs seconds in every rebuild.
EXCLUDED = (
    *(f"/usr/share/{name}/*" for name in ("man", "locale", "doc", "info")),
    "/usr/lib/udev/hwdb.d/*",
)


# Where a node has the packages of a newer suite.
NEWER = "/var/lib/lab/packages"


class Kernel(t.NamedTuple):
    """A kernel of the archive: "7.2", "7.2.12+deb13-amd64", and the version of its packages."""

    series: str
    release: str
    version: str


def driver_patch(series: str, here: pathlib.Path = config.HERE) -> pathlib.Path:
    return here / f"rxe-netns-{series}.patch"


def choose_kernel(names: t.Collection[str], preferred: t.Iterable[str], flavour: str) -> tuple[str, str] | None:
    """The first of the preferred series of which there is a package, and its newest release."""
    for series in preferred:
        release = newest_release(names, series, flavour)
        if release:
            return series, release
    return None


def newest_release(names: t.Iterable[str], series: str, flavour: str) -> str | None:
    """The newest kernel release of a series among names of packages."""
    pattern = re.compile(rf"linux-image-({re.escape(series)}(?:\.\d+)*(?:\+\w+)?)-{re.escape(flavour)}")
    versions = [match[1] for match in map(pattern.fullmatch, names) if match]
    if not versions:
        return None
    return max(versions, key=lambda version: [int(n) for n in re.findall(r"\d+", version)]) + f"-{flavour}"


class Builder:
    """One build, in a directory that is thrown away when anything fails."""

    def __init__(self, settings: dict[str, t.Any], work: pathlib.Path, log: pathlib.Path) -> None:
        self.settings = settings
        self.work = work
        self.log = log
        self.root = work / "root"
        self.limit = float(settings["limits"]["build"])
        self.sources = aptsource.of_this_machine(settings)
        self.env = {
            "PATH": os.environ.get("PATH", "") + ":/usr/sbin:/sbin",
            "LC_ALL": "C",
            "HOME": "/root",
            "DEBIAN_FRONTEND": "noninteractive",
        }
        self.env.update({name: os.environ[name] for name in ("http_proxy", "https_proxy") if name in os.environ})

    def run(self, argv: t.Sequence[str], title: str, log: pathlib.Path | None = None) -> None:
        run_logged(argv, log or self.log, title, self.limit, self.env)

    def build(self) -> dict[str, t.Any]:
        say(f"packages come from {self.sources.archive}")
        (self.work / "sources.list").write_text(aptsource.one_line(self.settings, self.sources))
        kernel = self.kernel()
        say(f"kernel {kernel.release} ({kernel.version})")
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            module = pool.submit(self.module, kernel)
            with step("installing the node's root file system"):
                self.install(kernel.release)
            with step("waiting for the kernel module"):
                ko = module.result()
        self.configure(kernel.release, ko)
        with step("writing the disk"):
            self.disk()
        with step("first boot: the guest installs its boot loader"):
            self.first_boot(kernel.release)
        return {"kernel": kernel.release, "kernel_package": kernel.version, "archive": self.sources.archive}

    # Packages

    def apt(self, tool: str, *args: str, sources: str = "sources.list") -> list[str]:
        """apt on a state of its own, so that neither this machine's lists nor its packages play a part."""
        area = self.work / f"apt-{sources}"
        for name in ("lists/partial", "cache/archives/partial"):
            (area / name).mkdir(parents=True, exist_ok=True)
        (area / "status").touch()
        options = {
            "Dir::State::lists": area / "lists",
            "Dir::State::status": area / "status",
            "Dir::Cache": area / "cache",
            "Dir::Etc::sourcelist": self.work / sources,
            "Dir::Etc::sourceparts": "/dev/null",
            "APT::Architecture": "amd64",
            "APT::Architectures": "amd64",
            "APT::Sandbox::User": "root",
        }
        return [tool, *(f"-o{name}={value}" for name, value in options.items()), *args]

    def query(self, *args: str) -> str:
        done = subprocess.run(
            self.apt("apt-cache", *args), capture_output=True, text=True, check=True, env=self.env, timeout=120
        )
        return done.stdout

    def kernel(self) -> Kernel:
        settings = self.settings["kernel"]
        self.run(self.apt("apt-get", "update"), "reading the package lists")
        names = self.query("pkgnames", "linux-image-").split()
        chosen = choose_kernel(names, settings["series"], settings["flavour"])
        if chosen is None:
            raise LabError(
                f"{self.sources.archive} has no kernel of series {' or '.join(settings['series'])} in "
                f"{settings['suite']}: add one that it has to [kernel] in tests/lab/versions.toml"
            )
        series, release = chosen
        match = re.search(r"^Version: (\S+)$", self.query("show", f"linux-headers-{release}"), re.MULTILINE)
        if not match:
            raise LabError(f"{self.sources.archive} has the kernel {release} but not its headers")
        return Kernel(series, release, match[1])

    def mmdebstrap(self, target: pathlib.Path, packages: t.Iterable[str], *options: str) -> list[str]:
        """In a mount namespace of its own, so that no mount outlives it."""
        return [
            *("unshare", "--mount", "--fork", "--kill-child", "mmdebstrap", "--mode=root", "--format=directory"),
            *("--variant=apt", f"--include={','.join(packages)}", '--aptopt=APT::Install-Recommends "false"'),
            *(f'--aptopt={name} "{value}"' for name, value in sorted(self.sources.options.items())),
            *(f"--dpkgopt=path-exclude={path}" for path in EXCLUDED),
            *(f"--dpkgopt=force-{name}" for name in ("unsafe-io", "confold")),
            *options,
            *(self.settings["debian"]["suite"], str(target), str(self.work / "sources.list")),
        ]

    def install(self, kernel: str) -> None:
        image = self.settings["image"]
        # mkinitramfs in a chroot knows nothing of the guest's disk: its settings have to be there before it runs.
        guest = config.HERE / "guest"
        before = "; ".join(
            f'install -D -m 644 "{guest / path}" "$1/{path}"'
            for path in ("etc/initramfs-tools/conf.d/lab", "usr/share/initramfs-tools/modules.d/lab")
        )
        before += '; echo MODULES=list >"$1/etc/initramfs-tools/conf.d/modules"'
        packages = self.newer()
        seed = (
            f'mkdir -p "$1{NEWER}" && cp {packages}/* "$1{NEWER}/" && echo "{aptsource.directory(NEWER)}" '
            '>"$1/etc/apt/sources.list.d/newer.list" && chroot "$1" apt-get update && chroot "$1" apt-get clean && '
            f'chroot "$1" apt-get install --download-only --yes {" ".join(image["seeded"])}'
        )
        self.run(
            self.mmdebstrap(
                self.root,
                # The kernel's package wants the linux-base of its own suite, which apt does not take by itself.
                [*image["packages"], f"linux-base/{self.settings['kernel']['suite']}", f"linux-image-{kernel}"],
                f"--essential-hook={before}",
                f"--customize-hook={seed}",
                "--skip=cleanup/apt",
            ),
            "installing the node's root file system",
        )

    def newer(self) -> pathlib.Path:
        """Return a directory with packages of a newer suite, and the list that apt reads."""
        settings, place = self.settings["image"]["newer"], self.work / "newer"
        place.mkdir()
        (self.work / "newer.list").write_text(
            aptsource.suite_line(self.settings, self.sources.archive, settings["suite"])
        )
        self.run(
            self.apt("apt-get", "update", sources="newer.list"), f"reading the package lists of {settings['suite']}"
        )
        fetch = self.apt("apt-get", "download", *settings["packages"], sources="newer.list")
        self.run(["env", "-C", str(place), *fetch], f"fetching packages of {settings['suite']}")
        stanzas = []
        for path in sorted(place.glob("*.deb")):
            argv = ["dpkg-deb", "--field", str(path)]
            fields = subprocess.run(argv, capture_output=True, text=True, check=True, env=self.env, timeout=120).stdout
            digest = hashlib.sha256(path.read_bytes()).hexdigest()
            stanzas.append(f"{fields}Filename: ./{path.name}\nSize: {path.stat().st_size}\nSHA256: {digest}\n")
        (place / "Packages").write_text("\n".join(stanzas))
        return place

    # The kernel module

    def module(self, kernel: Kernel) -> pathlib.Path:
        log = self.work / "module.log"
        try:
            return self.compile(kernel, log)
        finally:
            with self.log.open("a") as out:
                out.write(log.read_text(errors="replace") if log.exists() else "")

    def compile(self, kernel: Kernel, log: pathlib.Path) -> pathlib.Path:
        source = self.work / "source"
        source.mkdir()
        package_name = f"linux-source-{kernel.series}={kernel.version}"
        fetch = ["env", "-C", str(source), *self.apt("apt-get", "download", package_name)]
        self.run(fetch, "fetching the kernel's source", log)
        (package,) = source.glob("*.deb")
        inside = f"./usr/src/linux-source-{kernel.series}.tar.xz"
        unpack = (
            'dpkg-deb --fsys-tarfile "$1" | tar -xO "$2" | xz -dc -T2 '
            '| tar -x -C "$3" --strip-components=1 --wildcards "*/drivers/infiniband/sw/rxe"'
        )
        argv = ["bash", "-o", "pipefail", "-c", unpack, "-", str(package), inside, str(source)]
        self.run(argv, "unpacking the driver's source", log)
        package.unlink()
        folder = source / "drivers/infiniband/sw/rxe"
        patch = ["patch", "-p1", "--no-backup-if-mismatch", "-d", "/source", "-i", "/rxe-netns.patch"]
        compiler = [
            "make",
            "-C",
            f"/lib/modules/{kernel.release}/build",
            "M=/source/drivers/infiniband/sw/rxe",
            "modules",
        ]
        makefile = folder / "Makefile"
        makefile.write_text(makefile.read_text().replace("$(CONFIG_RDMA_RXE)", "m"))
        shutil.copy(driver_patch(kernel.series), self.work / "rxe-netns.patch")
        hook = (
            f'cp -a {source} "$1/source" && cp {self.work}/rxe-netns.patch "$1/" && '
            f'chroot "$1" {" ".join(patch)} && chroot "$1" {" ".join(compiler)} && '
            'chroot "$1" strip -d /source/drivers/infiniband/sw/rxe/rdma_rxe.ko && '
            f'cp "$1/source/drivers/infiniband/sw/rxe/rdma_rxe.ko" {self.work}/rdma_rxe.ko'
        )
        packages = [*self.settings["builder"]["packages"], f"linux-headers-{kernel.release}"]
        self.run(
            self.mmdebstrap(self.work / "builder", packages, f"--customize-hook={hook}"),
            "compiling the kernel module",
            log,
        )
        return self.work / "rdma_rxe.ko"

    # The root file system

    def write(self, path: str, text: str, mode: int = 0o644) -> None:
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        if target.is_symlink():
            target.unlink()
        target.write_text(text)
        target.chmod(mode)

    def configure_apt(self) -> None:
        for path in [self.root / "etc/apt/sources.list", *(self.root / "etc/apt/sources.list.d").glob("*")]:
            path.unlink(missing_ok=True)
        for_guest = self.sources.for_guest()
        self.write("etc/apt/sources.list.d/debian.sources", aptsource.deb822(self.settings, for_guest))
        self.write("etc/apt/sources.list.d/newer.list", aptsource.directory(NEWER) + "\n")
        self.write("etc/apt/apt.conf.d/90mirror", aptsource.apt_conf(for_guest.options))

    def configure(self, kernel: str, ko: pathlib.Path) -> None:
        root = self.root
        guest = config.HERE / "guest"
        for path in sorted(guest.rglob("*")):
            if path.is_file():
                target = root / path.relative_to(guest)
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(path, target)
                target.chmod(0o755 if path.stat().st_mode & 0o100 else 0o644)
                os.chown(target, 0, 0)
        settings = self.settings
        self.write("etc/initramfs-tools/conf.d/modules", f"MODULES={settings['guest']['initramfs']['default']}\n")

        self.configure_apt()
        self.write("etc/hostname", "gpu\n")
        self.write("etc/hosts", "127.0.0.1 localhost\n")
        self.write("etc/resolv.conf", "nameserver 10.0.2.3\n")
        # Empty, not "uninitialized": the first boot gives an id and is no "first boot" with presets (machine-id(5)).
        self.write("etc/machine-id", "", 0o444)
        # No check at boot, and so no fsck in the initramfs: the journal is replayed by the mount.
        self.write("etc/fstab", "LABEL=lab-root / ext4 defaults,errors=remount-ro 0 0\n")
        self.write(
            "etc/default/grub.d/lab.cfg",
            f'GRUB_CMDLINE_LINUX_DEFAULT="{" ".join(settings["guest"]["cmdline"])}"\n'
            "GRUB_TIMEOUT=0\nGRUB_DISABLE_OS_PROBER=true\nGRUB_TERMINAL=serial\n"
            'GRUB_SERIAL_COMMAND="serial --unit=0 --speed=115200"\n',
        )
        for rail in range(settings["network"]["rails"]):
            macs = " ".join(config.mac(settings["network"]["mac_prefix"], rail, node) for node in range(1, 100))
            link = f"[Match]\nMACAddress={macs}\n\n[Link]\nNamePolicy=\nName=rail{rail}\n"
            self.write(f"etc/systemd/network/10-rail{rail}.link", link)
        for unit in MASKED:
            link_path = root / "etc/systemd/system" / unit
            link_path.unlink(missing_ok=True)
            link_path.symlink_to("/dev/null")
        masked = root / "etc/systemd/system-generators"
        masked.mkdir(exist_ok=True)
        for path in (root / "usr/lib/systemd/system-generators").iterdir():
            if path.name not in GENERATORS_KEPT:
                (masked / path.name).symlink_to("/dev/null")
        wants = root / "etc/systemd/system/multi-user.target.wants"
        wants.mkdir(parents=True, exist_ok=True)
        (wants / "lab-node.service").symlink_to("/etc/systemd/system/lab-node.service")
        self.keys()
        (root / "usr/lib/udev/hwdb.bin").unlink(missing_ok=True)
        shutil.rmtree(root / "var/log/journal", ignore_errors=True)

        updates = root / "lib/modules" / kernel / "updates"
        updates.mkdir(exist_ok=True)
        shutil.copy(ko, updates / "rdma_rxe.ko")
        self.run(["chroot", str(root), "depmod", kernel], "indexing the kernel's modules")

    def keys(self) -> None:
        for old in (self.root / "etc/ssh").glob("ssh_host_*"):
            old.unlink()
        for name, comment in (("id_ed25519", "lab user"), ("host_key", "lab node")):
            argv = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", comment, "-f", str(self.work / name)]
            self.run(argv, "making a key")
        self.write("root/.ssh/authorized_keys", (self.work / "id_ed25519.pub").read_text(), 0o600)
        (self.root / "root/.ssh").chmod(0o700)
        self.write("etc/ssh/ssh_host_ed25519_key", (self.work / "host_key").read_text(), 0o600)
        self.write("etc/ssh/ssh_host_ed25519_key.pub", (self.work / "host_key.pub").read_text())
        (self.work / "host_key").unlink()

    # The disk

    def disk(self) -> None:
        path = self.work / "disk.raw"
        size = self.settings["image"]["disk_mib"] * MIB
        with path.open("wb") as file:
            file.truncate(size)
        layout = self.work / "layout"
        layout.write_text(LAYOUT)
        self.run(["bash", "-c", 'sfdisk --quiet "$1" <"$2"', "-", str(path), str(layout)], "partitioning")
        # A backup of the GPT ends the disk.
        blocks = (size - ROOT_OFFSET - MIB) // 4096
        self.run(
            [
                *("mke2fs", "-q", "-t", "ext4", "-L", "lab-root", "-b", "4096", "-m", "0", "-J", "size=32"),
                *("-E", f"offset={ROOT_OFFSET},lazy_itable_init=0,lazy_journal_init=0,nodiscard"),
                *("-d", str(self.root), str(path), str(blocks)),
            ],
            "writing the file system",
        )

    def first_boot(self, kernel: str) -> None:
        """One boot without a boot loader, in which the guest installs its own."""
        log = self.work / "first-boot.log"
        argv = qemu.first_boot(
            self.settings, self.work / "disk.raw", log, self.root / f"boot/vmlinuz-{kernel}",
            self.root / f"boot/initrd.img-{kernel}",
        )  # fmt: skip
        for attempt in (1, 2):
            log.unlink(missing_ok=True)
            run_qemu(argv, log, float(self.settings["limits"]["first_boot"]))
            text = log.read_text(errors="replace")
            if f"\n{FIRST_BOOT_DONE}" in text.replace("\r", ""):
                return
            if attempt == 1 and qemu.panicked(text):
                say(f"KERNEL PANIC in the first boot; trying once more. Its end:\n{tail(log, 15)}")
                continue
            break
        raise LabError(f"the guest did not install its boot loader; the end of its console:\n{tail(log, 40)}")


def run_qemu(argv: t.Sequence[str], log: pathlib.Path, limit: float) -> None:
    """Run a guest in the foreground until it powers off, panics or takes too long."""
    begun = time.monotonic()
    shown = begun
    with log.open("ab") as out:
        child = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=out, stderr=out)
    try:
        while child.poll() is None:
            time.sleep(0.3)
            now = time.monotonic()
            if now - shown > 10:
                say(f"first boot: {now - begun:.0f} s, at: {tail(log, 1)[:120]}")
                shown = now
            if now - begun > limit or (log.exists() and qemu.panicked(log.read_text(errors="replace"))):
                break
    finally:
        if child.poll() is None:
            child.kill()
            child.wait()
