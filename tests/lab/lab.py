#!/usr/bin/env python3
# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run the lab by `python3 tests/lab/lab.py COMMAND`; `--help` lists the commands."""

import pathlib
import signal
import sys

if __name__ == "__main__":
    # The package is imported by its own name, whatever the checkout is called.
    sys.path[0] = str(pathlib.Path(__file__).resolve().parent.parent)
    from lab.cli import main

    # Whatever ends the lab's command, what it was doing is cleaned up on the way out.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    sys.exit(main())
