# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Small mistakes in the code that decides, and whether the unit tests find them."""
