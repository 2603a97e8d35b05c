# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lab: virtual GPU nodes with two rails and soft-RoCE, on one machine."""
