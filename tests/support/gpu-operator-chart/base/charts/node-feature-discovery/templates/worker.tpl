{{- /*
# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
*/ -}}
apiVersion: v1
kind: ConfigMap
metadata:
  name: nfd-worker-conf
data:
  worker: {{ .Values.worker.enable | quote }}
