# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""Whether a container may register memory with an RDMA device, which pins it.

ib_umem_get() in drivers/infiniband/core/umem.c of Linux refuses with EPERM where RLIMIT_MEMLOCK is 0 (can_do_mlock()),
and with ENOMEM where the pages that a process has pinned are more than RLIMIT_MEMLOCK. CAP_IPC_LOCK passes both, so the
image's setpriv takes it away: what is tested is the limit, and that a pod without this capability can do with it.
"""

from __future__ import annotations

import errno
import json
import typing as t

from .pod import Pod

LIMIT_S = 60

# Runs on the image's own Python with the image's own libibverbs. It says what it came to, and why not further.
REGISTER = """
import ctypes, json, mmap, sys
name, size = sys.argv[1].encode(), int(sys.argv[2])
def end(step, code=None):
    print(json.dumps({"step": step, "errno": code}))
    sys.exit(0)
try:
    verbs = ctypes.CDLL("libibverbs.so.1", use_errno=True)
except OSError:
    end("load")
pointer = ctypes.c_void_p
verbs.ibv_get_device_list.restype = ctypes.POINTER(pointer)
for call in (verbs.ibv_open_device, verbs.ibv_alloc_pd, verbs.ibv_reg_mr):
    call.restype = pointer
verbs.ibv_get_device_name.restype = ctypes.c_char_p
number = ctypes.c_int()
found = verbs.ibv_get_device_list(ctypes.byref(number))
mine = [found[i] for i in range(number.value) if verbs.ibv_get_device_name(pointer(found[i])) == name]
if not mine:
    end("find")
context = verbs.ibv_open_device(pointer(mine[0]))
if not context:
    end("open", ctypes.get_errno())
domain = verbs.ibv_alloc_pd(pointer(context))
if not domain:
    end("alloc_pd", ctypes.get_errno())
memory = mmap.mmap(-1, size)
address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
local_write = 1
region = verbs.ibv_reg_mr(pointer(domain), pointer(address), ctypes.c_size_t(size), ctypes.c_int(local_write))
end("done" if region else "reg_mr", None if region else ctypes.get_errno())
"""

_STEPS = {
    "load": "libibverbs.so.1 is not in the image (Debian: libibverbs1, RHEL: libibverbs)",
    "find": "libibverbs does not know %s: is its file in the container's /dev/infiniband, and its driver in the image?",
    "open": "%s cannot be opened",
    "alloc_pd": "%s returns no protection domain",
}
REMEDY = (
    "Raise the limit of the container runtime, which containers inherit: the role gpu_node does it, and restarts the "
    "runtime with gpu_node_runtime_restart_ok; then re-create the pod"
)

# Root gets back at execve(2) what is in the bounding or the inheritable set (capabilities(7)).
WITHOUT = ["setpriv", "--ambient-caps=-ipc_lock", "--inh-caps=-ipc_lock", "--bounding-set=-ipc_lock"]
EXCEEDS = (
    "the container has CAP_IPC_LOCK, to which the limit does not apply, and setpriv (package util-linux) is not in the "
    "image to test without"
)


def memlock(port: t.Mapping[str, t.Any], size: int, tcp_port: int, pod: Pod) -> dict[str, t.Any]:
    """Register ``size`` bytes as the container's user: ``ok``, ``error``, the limit, and what it was done ``by``."""
    text, exceeds = pod.memlock()
    limit = None if text == "unlimited" else int(text)
    result = {"wanted_bytes": size, "limit_bytes": limit, "unlimited": limit is None}
    device = port["device"]
    if exceeds and not pod.which("setpriv"):
        return {**result, "by": None, "ok": None, "error": EXCEEDS}
    before = WITHOUT if exceeds else []
    if pod.which("python3"):
        status, text = pod.run([*before, "python3", "-c", REGISTER, device, str(size)], LIMIT_S)
        return {**result, "by": "python3", **_answer(device, size, limit, status, text)}
    # pp_init_ctx() of libibverbs/examples/rc_pingpong.c registers before the server listens.
    if pod.which("ibv_rc_pingpong"):
        return {**result, "by": "ibv_rc_pingpong", **_pingpong(port, size, limit, tcp_port, pod, before)}
    error = "neither python3 nor ibv_rc_pingpong (Debian: ibverbs-utils, RHEL: libibverbs-utils) is in the image"
    return {**result, "by": None, "ok": None, "error": error}


def _answer(device: str, size: int, limit: int | None, status: int | None, text: str) -> dict[str, t.Any]:
    try:
        answer = json.loads(text.strip().split("\n")[-1])
        step, code = answer["step"], answer["errno"]
    except (ValueError, TypeError, KeyError, IndexError):
        ended = "timed out after %d s" % LIMIT_S if status is None else "exited with %d" % status
        output = " ".join(text.split())[-200:]
        return {"ok": None, "error": "python3 %s: %s" % (ended, output or "it printed nothing")}
    if step == "done":
        return {"ok": True, "error": None}
    if step == "reg_mr":
        return {"ok": False, "error": refusal(device, size, limit, code)}
    why = _STEPS[step] % device if "%s" in _STEPS[step] else _STEPS[step]
    if code:
        why += ": " + _code(code)
    # Without the library nothing was tried; all else is what a job would meet, too.
    return {"ok": None if step == "load" else False, "error": why}


def _code(code: int | None) -> str:
    return errno.errorcode.get(code or 0, "an unknown error")


def refusal(device: str, size: int, limit: int | None, code: int | None) -> str:
    """Why a registration failed, and what unblocks it."""
    text = "registering %d bytes with %s failed%s, " % (size, device, " with " + _code(code) if code else "")
    if limit is None or (limit >= size and code != errno.EPERM):
        shown = "unlimited" if limit is None else "%d bytes" % limit
        return (
            text + "and RLIMIT_MEMLOCK of the container is %s: look at its memory limit and at the kernel log" % shown
        )
    return text + "RLIMIT_MEMLOCK of the container is %d bytes. %s" % (limit, REMEDY)


def _pingpong(
    port: t.Mapping[str, t.Any], size: int, limit: int | None, tcp_port: int, pod: Pod, before: t.Sequence[str]
) -> dict[str, t.Any]:
    argv = ["ibv_rc_pingpong", "-d", port["device"], "-i", str(port["port"]), "-p", str(tcp_port), "-s", str(size)]
    if port.get("gid_index") is not None:
        argv += ["-g", str(port["gid_index"])]
    server = pod.start([*before, *argv], LIMIT_S, "")
    try:
        while True:
            ended = server.status()
            if ended is None and pod.listens(tcp_port):
                return {"ok": True, "error": None}
            if ended is not None:
                break
            pod.sleep(0.1)
    finally:
        server.stop()
    output = " ".join(server.output().split())[-200:]
    if "Couldn't register MR" in output:
        return {"ok": False, "error": refusal(port["device"], size, limit, None)}
    return {"ok": None, "error": "ibv_rc_pingpong exited with %d: %s" % (ended, output or "it printed nothing")}


__all__ = ("EXCEEDS", "REGISTER", "REMEDY", "WITHOUT", "memlock", "refusal")
