{{- /*
# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
*/ -}}
{{- if .Values.driver.nvidiaDriverCRD.enabled }}
apiVersion: nvidia.com/v1alpha1
kind: NVIDIADriver
metadata:
  name: default
spec:
  driverType: gpu
  version: {{ .Values.driver.version | quote }}
  {{- with .Values.driver.nvidiaDriverCRD.nodeSelector }}
  nodeSelector: {{ toYaml . | nindent 4 }}
  {{- end }}
{{- end }}
