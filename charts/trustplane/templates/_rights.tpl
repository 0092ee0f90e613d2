{{/*
A Role or ClusterRole and its binding to a process, or nothing when there is nothing to permit.
Takes root, process, kind (Role or ClusterRole), name and rules.
*/}}
{{- define "trustplane.grant" -}}
{{- if .rules }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ .kind }}
metadata:
  name: {{ .name }}
  {{- if eq .kind "Role" }}
  namespace: {{ .root.Release.Namespace }}
  {{- end }}
  labels:
    {{- include "trustplane.labels" . | nindent 4 }}
rules:
  {{- toYaml .rules | replace "$(PROCESS)" .process.name | nindent 2 }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ .kind }}Binding
metadata:
  name: {{ .name }}
  {{- if eq .kind "Role" }}
  namespace: {{ .root.Release.Namespace }}
  {{- end }}
  labels:
    {{- include "trustplane.labels" . | nindent 4 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: {{ .kind }}
  name: {{ .name }}
subjects:
  - kind: ServiceAccount
    name: {{ .process.name }}
    namespace: {{ .root.Release.Namespace }}
{{- end }}
{{- end -}}
