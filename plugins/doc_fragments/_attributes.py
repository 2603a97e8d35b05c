# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this doc fragment is PRIVATE to the collection: it may change in any release.

from __future__ import annotations


class ModuleDocFragment:
    # Every module states C(support), and C(details) where it is not full.
    DOCUMENTATION = r"""
options: {}
attributes:
  check_mode:
    description: Predicts what would be done and reports it as if it had been done, without changing the host.
  diff_mode:
    description: Shows what was found and what it is (or would be) replaced with.
  idempotent:
    description:
      - A second run with the same options changes nothing and reports no change, unless the host was changed in between.
  platform:
    description: The operating systems that the module supports.
"""

    # A module that only looks.
    INFO_MODULE = r"""
options: {}
attributes:
  check_mode:
    support: full
    details:
      - This module only reads.
  diff_mode:
    support: N/A
    details:
      - This module only reads.
  idempotent:
    support: full
    details:
      - This module only reads.
"""

    # A module that reports the same in check mode as in a run.
    MANAGES = r"""
options: {}
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
  idempotent:
    support: full
"""

    # Linux is all there is: RDMA namespaces, modprobe.d and initramfs exist nowhere else.
    LINUX = r"""
options: {}
attributes:
  platform:
    support: full
    platforms: linux
"""

    # A module that reads and changes what only root may.
    ROOT = r"""
options: {}
attributes:
  root:
    description: The task requires root on the host, for example through C(become).
    support: full
"""
