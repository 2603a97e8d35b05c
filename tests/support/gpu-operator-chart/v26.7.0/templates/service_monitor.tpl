{{- /*
# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
The operator creates the ServiceMonitor, as in NVIDIA's chart: it is part of the ClusterPolicy or GPUCluster.
*/ -}}
