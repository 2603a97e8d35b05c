# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Start a part of the exporter from the directory that the role has assembled (`python3 DIRECTORY serve|look`)."""

import sys

# The imports below are not valid for Python 3.6, which RHEL 8 calls python3.
if sys.version_info < (3, 8):
    sys.exit(
        "rdma_exporter: this is Python %d.%d, and it needs 3.8 or newer. Install one (RHEL 8: python3.11), and set "
        "rdma_exporter_python to its path" % sys.version_info[:2]
    )

part = sys.argv[1] if len(sys.argv) > 1 else ""
# The unprivileged part imports nothing of the other.
if part == "serve":
    from rdma_exporter.serve import main
elif part == "look":
    from rdma_exporter.look import main
else:
    sys.exit("usage: python3 DIRECTORY serve|look [options]")

sys.exit(main(sys.argv[2:]))
