# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""The program that a pod begins with, as one file that the image's Python runs (PEP 441)."""

from __future__ import annotations

import base64
import functools
import io
import os
import zipfile

FILE = "start.pyz"
PACKAGE = "ansible_collections/rdmaops/gpu_fabric/plugins/module_utils"
# What start imports, and what that imports.
PARTS = (
    "_cache.py",
    "_command.py",
    "_errors.py",
    "_rails",
    "_rdma",
    "_training_job/__init__.py",
    "_training_job/start.py",
)
_MAIN = """\
import sys

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._training_job.start import main

sys.exit(main())
"""


@functools.lru_cache(maxsize=1)
def bundle() -> str:
    """Return the file in Base64; the same bytes wherever and whenever it is made."""
    here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    names = [name for name in PARTS if name.endswith(".py")]
    for part in PARTS:
        if not part.endswith(".py"):
            names += [
                "%s/%s" % (part, name) for name in sorted(os.listdir(os.path.join(here, part))) if name[-3:] == ".py"
            ]
    buffer = io.BytesIO()
    # Stored, as implementations of deflate differ in their output.
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr(zipfile.ZipInfo("__main__.py"), _MAIN)
        # In an archive a directory alone is not a package (zipimport).
        steps = PACKAGE.split("/")
        for number in range(len(steps)):
            archive.writestr(zipfile.ZipInfo("/".join(steps[: number + 1]) + "/__init__.py"), "")
        for name in names:
            with open(os.path.join(here, name), "rb") as stream:
                archive.writestr(zipfile.ZipInfo("%s/%s" % (PACKAGE, name)), stream.read())
    return base64.b64encode(buffer.getvalue()).decode()


__all__ = ("FILE", "PACKAGE", "PARTS", "bundle")
