# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""An image that buildah builds from a Containerfile, and rebuilds only if its inputs changed."""

from __future__ import annotations

import base64
import contextlib
import ctypes
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import typing as t

from .. import _command
from .._decision import DRIFT, IN_SYNC, Decision, resource
from .._fetch import SHA256, digest, fetch
from .._files import FileError, because, read_text
from .._files_write import atomic_write
from .._formats import from_json
from .archive import opened
from .containerd import advice, last_lines
from .oci import ImageError, architecture, document, parse_name

# The label with the hash of an image's inputs.
LABEL = "rdmaops.gpu-fabric.inputs"
DIRECTORY = "/var/lib/rdmaops/images"
_QUICK = 120
_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*\Z")

# A file of the host for the error output of a step. With isolation chroot, buildah ends without waiting for
# the goroutine that relays a failed step's output (chroot/run_common.go, runUsingChrootMain), which may be lost.
ERROR = "/run/rdmaops-build-error"
_STEP = re.compile(r"(?m)^(?:\[\d+/\d+\] )?STEP \d+(?:/\d+)?: .*$")
# What buildah adds to the output of a step that fails: the exit status, three times.
_STATUS = re.compile(
    r"subprocess exited (?:with status \d+|on .*)|"
    r"(?:Error: |error )building at STEP \".*\": (?:while running runtime: )?exit status \d+"
)
_OUTPUT_LINES, _OUTPUT_SIZE = 30, 4000
# buildah starts a step by a sealed copy of itself (containers/storage, pkg/unshare/unshare.c, copy_self_proc_exe), and
# F_ADD_SEALS ends with EBUSY while the kernel still uses a page of it (mm/memfd.c, memfd_wait_for_pins). The step has
# not run then.
_NOT_RUN = "Close_Fd sealing memfd copy: Device or resource busy"

# buildah is the first process of a PID namespace: when it ends, the kernel ends all others of it, in whatever session
# they are (pid_namespaces(7)), and its mounts end too. Not with a container runtime: it gives the numbers of
# its processes to systemd, and on the host those of a namespace are other processes'.
_ALONE = ("unshare", "--mount", "--pid", "--mount-proc", "--fork", "--kill-child")
_PR_SET_PDEATHSIG = 1  # linux/prctl.h

Params = t.Mapping[str, t.Any]


class BuildError(ImageError):
    """An image could not be built, written or pushed."""


def _end_with_parent() -> None:
    """Let the kernel end this process with the module, however that ends (prctl(2))."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def find(binary: str | None, *, needed: bool) -> str:
    """Return the path of buildah, nothing if it is missing and not needed."""
    try:
        return _command.find("buildah", binary, "buildah_binary")
    except _command.NotFound as exc:
        if needed:
            raise BuildError("Looking for buildah: %s. Install the package buildah on the build host" % exc) from None
        return ""


def check(params: Params) -> None:
    """Refuse invalid options first."""
    name = parse_name(params["name"])
    if name.digest or not name.tag:
        raise BuildError("Building %s: set a tag; the digest is known only after the build" % params["name"])
    if not re.search(r"(?mi)^\s*FROM\s", params["containerfile"]):
        raise BuildError("Building %s: the containerfile has no FROM" % params["name"])
    for file in params["files"]:
        if not _PLAIN.match(file["name"]) or file["name"] == "Containerfile":
            raise BuildError(
                "Building %s: %r is not a valid name for a file of the context" % (params["name"], file["name"])
            )
        if file["checksum"] and not SHA256.match(file["checksum"]):
            raise BuildError(
                "Building %s: the checksum of %s is %r; set it to sha256: and 64 lowercase hexadecimal digits"
                % (params["name"], file["name"], file["checksum"])
            )
        if file["content"] is None and not file["src"].startswith("/") and not file["checksum"]:
            raise BuildError(
                "Building %s: %s would not be verified. Set its checksum, or an absolute path"
                % (params["name"], file["src"])
            )


def sum_of(path: str) -> str:
    checksum = digest(path)
    if checksum is None:
        raise BuildError("Reading %s for the context: no such file on the build host" % path)
    return "sha256:" + checksum


def inputs(params: Params) -> str:
    """Return one hash of all inputs. The digest behind a registry's tag is not part of it."""
    hasher = hashlib.sha256(params["containerfile"].encode("utf-8"))
    for file in sorted(params["files"], key=lambda file: str(file["name"])):
        if file["content"] is not None:
            checksum = "sha256:" + hashlib.sha256(file["content"].encode("utf-8")).hexdigest()
        else:
            checksum = file["checksum"] or sum_of(file["src"])
        hasher.update(("\n%s %s %s" % (file["name"], file["mode"], checksum)).encode("utf-8"))
    return hasher.hexdigest()


def label_of(text: str) -> str | None:
    """Read the inputs of an image from `buildah inspect --type image`."""
    source = "what buildah reports about the image"
    value: t.Any = document(text.encode("utf-8", "surrogatepass"), source)
    for step in ("OCIv1", "config", "Labels"):
        value = value.get(step) or {}
        if not isinstance(value, dict):
            raise BuildError("Reading %s: %s is not a JSON object" % (source, step))
    label = value.get(LABEL)
    return label if isinstance(label, str) else None


def last_step(text: str) -> tuple[str, str]:
    """Return the last step that `buildah bud` started, cut short, and its output without buildah's additions."""
    step, start = "", 0
    for match in _STEP.finditer(text):
        step, start = match.group(), match.end()
    lines = [line for line in text[start:].splitlines() if not _STATUS.fullmatch(line.strip())]
    return step[:200], "".join(line + "\n" for line in lines)


class Build:
    """One image: its state, and the plan."""

    def __init__(self, params: Params, check_mode: bool) -> None:
        self.params = params
        self.name: str = params["name"]
        self.host = parse_name(self.name).host
        # In check mode, an earlier task may be the one that would install it.
        self.buildah = find(params["buildah_binary"], needed=not check_mode)
        self._alone = _ALONE if params.get("isolation") == "chroot" and os.geteuid() == 0 else ()
        self.registry = params["output"] == "registry"
        base = os.path.join(params["directory"], re.sub(r"[^A-Za-z0-9._-]", "_", self.name))
        self.archive = base + ".tar"
        self.record = base + ".json"
        self.inputs = inputs(params)
        self.digest: str | None = None
        self.live = "absent"

    def _call(self, arguments: t.Sequence[str], doing: str, limit: int, merged: bool = False) -> _command.Done:
        argv = [*self._alone, self.buildah, *arguments]
        try:
            return _command.run(argv, limit, merged=merged, before=_end_with_parent, kill_if_interrupted=True)
        except (OSError, subprocess.SubprocessError) as exc:
            why = because(exc) if isinstance(exc, OSError) else str(exc)
            raise BuildError("%s: %s cannot be run: %s" % (doing, argv[0], why)) from exc
        except _command.TimedOut as exc:
            raise BuildError(
                "%s: buildah timed out after %d s and was killed. Output: %s. Raise timeout"
                % (doing, limit, last_lines(exc.out if merged else exc.err))
            ) from exc

    def run(self, arguments: t.Sequence[str], doing: str, limit: int, hint: t.Callable[[str], str]) -> str:
        """Run buildah and return its standard output."""
        done = self._call(arguments, doing, limit)
        if done.status != 0:
            raise BuildError(
                "%s: buildah exited with status %d. Output: %s. %s"
                % (doing, done.status, last_lines(done.err), hint(done.err))
            )
        return done.out

    def _run_steps(self, arguments: t.Sequence[str], doing: str, error: str) -> None:
        """Run `buildah bud`; ``error`` is the file that the steps see as ERROR."""
        arguments = ["bud", "--volume", "%s:%s:Z" % (error, ERROR), *arguments]
        done = self._call(arguments, doing, self.params["timeout"], merged=True)
        if done.status != 0 and _NOT_RUN in last_step(done.out)[1]:
            done = self._call(arguments, doing, self.params["timeout"], merged=True)
        if done.status != 0:
            step, text = last_step(done.out)
            with open(error, "rb") as stream:
                text += stream.read().decode("utf-8", "replace")
            raise BuildError(
                "%s: buildah exited with status %d%s. Output: %s. %s"
                % (
                    doing,
                    done.status,
                    " at %s" % step if step else "",
                    last_lines(text, count=_OUTPUT_LINES, size=_OUTPUT_SIZE),
                    self._advice(text),
                )
            )

    def _stored_inputs(self) -> str | None:
        """Return the inputs of the image in buildah's own storage."""
        if not self.buildah:
            return None
        output = self.run(["images", "--json"], "Listing buildah's images", _QUICK, lambda _text: "Run as root")
        try:
            names = [name for image in from_json(output or "[]") or [] for name in image.get("names") or []]
        except ValueError as exc:
            raise BuildError("Listing buildah's images: its output is not JSON: %s" % exc) from exc
        if self.name not in names:
            return None
        doing = "Looking at the image %s of buildah" % self.name
        return label_of(self.run(["inspect", "--type", "image", self.name], doing, _QUICK, lambda _text: ""))

    def _delivery(self) -> tuple[str, str] | None:
        """Return digest and inputs of what was written or pushed before."""
        if self.registry:
            try:
                record = from_json(read_text(self.record) or "{}")
                return str(record["digest"]), str(record["inputs"])
            except (ValueError, KeyError, TypeError):
                return None
        if not os.path.exists(self.archive):
            return None
        try:
            with opened(self.archive) as archive:
                image_digest = archive.choose(None, self.name)
                return image_digest, str(archive.label(image_digest, architecture(), LABEL))
        except ImageError:
            # Truncated, or not ours: it is written again.
            return None

    def plan(self, decision: Decision) -> None:
        delivery = self._delivery()
        if delivery:
            self.live = delivery[1]
        if delivery and delivery[1] == self.inputs and not self.params["rebuild"]:
            self.digest = delivery[0]
            return
        if self.params["rebuild"] or self._stored_inputs() != self.inputs:
            decision.add("Build %s" % self.name, self._build)
        if self.registry:
            decision.add("Push %s" % self.name, self._push)
        else:
            decision.add("Write %s to %s" % (self.name, self.archive), self._write)
        decision.show(self.name, "inputs: %s\n" % self.live, "inputs: %s\n" % self.inputs)

    def _directory(self) -> str:
        try:
            os.makedirs(self.params["directory"], mode=0o755, exist_ok=True)
        except OSError as exc:
            raise FileError("Making %s: %s" % (self.params["directory"], because(exc))) from exc
        return str(self.params["directory"])

    def _build(self) -> None:
        doing = "Building %s" % self.name
        with tempfile.TemporaryDirectory(prefix=".build-", dir=self._directory()) as work:
            context = os.path.join(work, "context")
            os.mkdir(context)
            for file in self.params["files"]:
                self._place(file, os.path.join(context, file["name"]))
            path = os.path.join(work, "Containerfile")
            atomic_write(path, self.params["containerfile"])
            error = os.path.join(work, "error")
            # Not every step runs as root.
            atomic_write(error, "", 0o666)
            arguments = ["--isolation", self.params["isolation"], "--layers=false", "--format", "oci"]
            arguments += ["--label", "%s=%s" % (LABEL, self.inputs), "--file", path, "--tag", self.name]
            # Without --authfile, a base image of another registry is pulled with what `buildah login` has left.
            ours = self.params["auth_file"] or self.host + "/" in self.params["containerfile"]
            with _login(self.params, self.host) as login:
                arguments += login if ours else []
                self._run_steps([*arguments, context], doing, error)

    @staticmethod
    def _advice(text: str) -> str:
        if "no such host" in text or "unauthorized" in text or "connection refused" in text:
            return advice(text)
        return "Correct the step that failed; the previous image is still there"

    def _place(self, file: Params, target: str) -> None:
        if file["content"] is not None:
            atomic_write(target, file["content"], int(file["mode"], 8))
            return
        try:
            with contextlib.closing(fetch(file["src"], _QUICK)) as stream, open(target, "wb") as sink:
                shutil.copyfileobj(stream, sink, 1 << 20)
        except OSError as exc:
            raise FileError("Copying %s to %s: %s" % (file["src"], target, because(exc))) from exc
        checksum = sum_of(target)
        if file["checksum"] and checksum != file["checksum"]:
            raise BuildError(
                "Verifying %s: its checksum is %s, expected %s. Nothing was built: the file is damaged or is not the "
                "expected one" % (file["src"], checksum, file["checksum"])
            )

    def _write(self) -> None:
        doing = "Writing %s to %s" % (self.name, self.archive)
        with tempfile.TemporaryDirectory(prefix=".write-", dir=self._directory()) as work:
            path = os.path.join(work, "image.tar")
            target = "oci-archive:%s:%s" % (path, self.name)
            self.run(["push", self.name, target], doing, self.params["timeout"], lambda _text: "Is there space left?")
            with opened(path) as archive:
                self.digest = archive.choose(None, self.name)
            try:
                # It contains no secret, and the connection's user must be able to fetch it.
                os.chmod(path, 0o644)
                os.rename(path, self.archive)
            except OSError as exc:
                raise FileError("%s: %s" % (doing, because(exc))) from exc

    def _push(self) -> None:
        doing = "Pushing %s" % self.name
        with tempfile.TemporaryDirectory(prefix=".push-", dir=self._directory()) as work:
            path = os.path.join(work, "digest")
            with _login(self.params, self.host) as login:
                arguments = ["push", *login, "--digestfile", path, self.name, "docker://" + self.name]
                self.run(arguments, doing, self.params["timeout"], advice)
            self.digest = (read_text(path) or "").strip()
        if not SHA256.match(self.digest):
            raise BuildError("%s: buildah reported success, but no digest" % doing)
        record = {"name": self.name, "digest": self.digest, "inputs": self.inputs}
        atomic_write(self.record, json.dumps(record, indent=2) + "\n")


@contextlib.contextmanager
def _login(params: Params, host: str) -> t.Iterator[list[str]]:
    """Login arguments of buildah with a private file: every user can read a password among arguments."""
    if not params["username"]:
        yield ["--authfile", params["auth_file"]] if params["auth_file"] else []
        return
    pair = "%s:%s" % (params["username"], params["password"])
    auth = base64.b64encode(pair.encode("utf-8")).decode("ascii")
    with tempfile.NamedTemporaryFile("w", prefix="rdmaops-auth-") as sink:
        sink.write(json.dumps({"auths": {host: {"auth": auth}}}))
        sink.flush()
        yield ["--authfile", sink.name]


def manage(params: Params, check_mode: bool) -> dict[str, t.Any]:
    """Return what the module image_build returns."""
    check(params)
    decision = Decision()
    build = Build(params, check_mode)
    build.plan(decision)
    status = DRIFT if decision.changed else IN_SYNC
    if not check_mode:
        decision.carry_out()
    return {
        **decision.result(),
        "digest": build.digest,
        "archive": None if build.registry else build.archive,
        "inputs": build.inputs,
        "resources": [resource("image_build", build.name, desired=build.inputs, live=build.live, status=status)],
    }


__all__ = ("DIRECTORY", "ERROR", "LABEL", "BuildError", "check", "inputs", "label_of", "last_step", "manage")
