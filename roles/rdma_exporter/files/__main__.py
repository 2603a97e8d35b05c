# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Start the exporter from the directory that the role has put together (`python3 DIRECTORY`)."""

from __future__ import annotations

import sys

from rdma_exporter.cli import main

sys.exit(main())
