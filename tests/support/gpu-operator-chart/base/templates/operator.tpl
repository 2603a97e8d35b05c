{{- /*
# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
*/ -}}
apiVersion: v1
kind: ServiceAccount
metadata:
  name: gpu-operator
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: gpu-operator
rules:
  - apiGroups: [nvidia.com]
    resources: ["*"]
    verbs: [get, list, watch, update, patch]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  name: gpu-operator
subjects:
  - kind: ServiceAccount
    name: gpu-operator
    namespace: {{ .Release.Namespace }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: ClusterRole
  name: gpu-operator
---
apiVersion: v1
kind: Secret
metadata:
  name: gpu-operator-webhook
stringData:
  token: stand-in-for-a-secret
---
apiVersion: apps/v1
kind: Deployment
metadata:
  name: gpu-operator
  labels:
    app.kubernetes.io/component: gpu-operator
spec:
  replicas: 1
  selector:
    matchLabels:
      app: gpu-operator
  template:
    metadata:
      labels:
        app: gpu-operator
    spec:
      serviceAccountName: gpu-operator
      nodeSelector: {}
      containers:
        - name: gpu-operator
          image: {{ .Values.operator.repository }}/{{ .Values.operator.image }}:{{ .Values.operator.version | default .Chart.AppVersion }}
          imagePullPolicy: {{ .Values.operator.imagePullPolicy }}
          args: [--leader-elect]
          env:
            - name: OPERATOR_NAMESPACE
              valueFrom:
                fieldRef:
                  fieldPath: metadata.namespace
          resources: {{ toYaml .Values.operator.resources | nindent 12 }}
