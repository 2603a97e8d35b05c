{{- /*
# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
The shape is that of deployments/gpu-operator/templates/cleanup_gpucluster.yaml of NVIDIA/gpu-operator (commit 0046331ebc24).
*/ -}}
apiVersion: batch/v1
kind: Job
metadata:
  name: gpu-operator-cleanup-gpucluster
  annotations:
    helm.sh/hook: pre-delete
    helm.sh/hook-weight: "0"
    helm.sh/hook-delete-policy: hook-succeeded,before-hook-creation
spec:
  template:
    spec:
      serviceAccountName: gpu-operator
      restartPolicy: OnFailure
      containers:
        - name: cleanup-gpucluster
          image: {{ .Values.operator.repository }}/{{ .Values.operator.image }}:{{ .Chart.AppVersion }}
          command: [/usr/bin/cleanup-gpuclusters, --gpucluster-name, gpu-cluster]
