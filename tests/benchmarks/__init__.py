# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the collection costs, as ratios to what a user knows. `make bench` runs it."""
