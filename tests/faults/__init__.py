# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Faults made on purpose, on a virtual machine that boots what its disk says. Only in `make test-all`."""
