// Copyright: (c) 2026, rdmaops contributors
// SPDX-License-Identifier: GPL-3.0-or-later

module rdmaops/lab/pause

go 1.26.0
