{{- /*
# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
The shape is that of deployments/gpu-operator/templates/gpucluster.yaml of NVIDIA/gpu-operator (commit 4651c8215db7).
*/ -}}
{{- if .Values.gpuCluster.deployCR }}
apiVersion: nvidia.com/v1alpha1
kind: GPUCluster
metadata:
  name: gpu-cluster
  labels:
    app.kubernetes.io/component: gpu-operator
spec:
  draDriver:
    repository: {{ .Values.draDriver.repository }}
    image: {{ .Values.draDriver.image }}
    version: {{ .Values.draDriver.version | quote }}
    {{- with .Values.draDriver.featureGates }}
    featureGates: {{ toYaml . | nindent 6 }}
    {{- end }}
    computeDomains:
      enabled: {{ .Values.draDriver.computeDomains.enabled }}
  dcgmExporter:
    enabled: {{ .Values.dcgmExporter.enabled }}
    version: {{ .Values.dcgmExporter.version | quote }}
    serviceMonitor: {{ toYaml .Values.dcgmExporter.serviceMonitor | nindent 6 }}
  hostPaths:
    rootFS: {{ .Values.hostPaths.rootFS }}
    driverInstallDir: {{ .Values.hostPaths.driverInstallDir }}
  daemonsets: {{ toYaml .Values.daemonsets | nindent 4 }}
{{- end }}
