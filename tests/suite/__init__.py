# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What `make test` and `make test-all` run, how long it may take, and what they report."""
