{{- /*
# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
*/ -}}
{{- $switch := .Values.clusterPolicy | default (dict "deployCR" true) }}
{{- if $switch.deployCR }}
apiVersion: nvidia.com/v1
kind: ClusterPolicy
metadata:
  name: cluster-policy
  labels:
    app.kubernetes.io/component: gpu-operator
    app.kubernetes.io/instance: {{ .Release.Name }}
spec:
  operator:
    defaultRuntime: {{ .Values.operator.defaultRuntime }}
    runtimeClass: {{ .Values.operator.runtimeClass }}
  daemonsets:
    priorityClassName: {{ .Values.daemonsets.priorityClassName }}
    tolerations: {{ toYaml .Values.daemonsets.tolerations | nindent 6 }}
  validator:
    repository: {{ .Values.validator.repository }}
    image: {{ .Values.validator.image }}
    version: {{ .Values.validator.version | default .Chart.AppVersion | quote }}
    {{- with .Values.validator.env }}
    env: {{ toYaml . | nindent 6 }}
    {{- end }}
  mig:
    strategy: {{ .Values.mig.strategy }}
  cdi:
    enabled: {{ .Values.cdi.enabled }}
  driver:
    enabled: {{ .Values.driver.enabled }}
    repository: {{ .Values.driver.repository }}
    image: {{ .Values.driver.image }}
    version: {{ .Values.driver.version | quote }}
    {{- if .Values.driver.kernelModuleType }}
    kernelModuleType: {{ .Values.driver.kernelModuleType }}
    {{- end }}
    rdma:
      enabled: {{ .Values.driver.rdma.enabled }}
      useHostMofed: {{ .Values.driver.rdma.useHostMofed }}
    upgradePolicy:
      autoUpgrade: {{ .Values.driver.upgradePolicy.autoUpgrade }}
    manager:
      image: {{ .Values.driver.manager.image }}
      version: {{ .Values.driver.manager.version }}
      env: {{ toYaml .Values.driver.manager.env | nindent 8 }}
    {{- with .Values.driver.env }}
    env: {{ toYaml . | nindent 6 }}
    {{- end }}
  toolkit:
    enabled: {{ .Values.toolkit.enabled }}
    version: {{ .Values.toolkit.version | quote }}
  devicePlugin:
    enabled: {{ .Values.devicePlugin.enabled }}
    version: {{ .Values.devicePlugin.version | quote }}
    {{- with .Values.devicePlugin.nodeSelector }}
    nodeSelector: {{ toYaml . | nindent 6 }}
    {{- end }}
  dcgmExporter:
    enabled: {{ .Values.dcgmExporter.enabled }}
    version: {{ .Values.dcgmExporter.version | quote }}
    {{- if .Values.clusterPolicy }}
    hostNetwork: {{ .Values.dcgmExporter.hostNetwork }}
    serviceMonitor: {{ toYaml .Values.dcgmExporter.serviceMonitor | nindent 6 }}
    {{- end }}
  gfd:
    enabled: {{ .Values.gfd.enabled }}
  migManager:
    enabled: {{ .Values.migManager.enabled }}
    version: {{ .Values.migManager.version | quote }}
  {{- if ne .Chart.Version "v25.3.0" }}
  nodeStatusExporter:
    enabled: false
  {{- end }}
  gdrcopy:
    enabled: {{ .Values.gdrcopy.enabled }}
{{- end }}
