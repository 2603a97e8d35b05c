{{- /*
# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
*/ -}}
{{- if .Values.operator.upgradeCRD }}
apiVersion: batch/v1
kind: Job
metadata:
  name: gpu-operator-upgrade-crd
  annotations:
    helm.sh/hook: pre-upgrade
    helm.sh/hook-delete-policy: hook-succeeded,before-hook-creation
spec:
  template:
    spec:
      restartPolicy: OnFailure
      containers:
        - name: upgrade-crd
          image: {{ .Values.operator.repository }}/{{ .Values.operator.image }}:{{ .Chart.AppVersion }}
          command: [/usr/bin/manage-crds, apply]
{{- end }}
