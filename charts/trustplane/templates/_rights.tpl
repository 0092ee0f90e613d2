{{/*
A Role or ClusterRole and its binding to a process, or nothing when there is nothing to permit.
Takes root, process, kind (Role or ClusterRole), name, rules, and perhaps namespaces: then a ClusterRole is bound in those
alone.
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
{{- if eq .kind "Role" }}
{{- include "trustplane.binding" (merge (dict "in" .root.Release.Namespace) .) }}
{{- else if .namespaces }}
{{- range .namespaces }}
{{- include "trustplane.binding" (merge (dict "in" .) $) }}
{{- end }}
{{- else }}
{{- include "trustplane.binding" . }}
{{- end }}
{{- end }}
{{- end -}}

{{/* A role bound to a process: in a namespace (`in`), or everywhere. Takes root, process, kind and name. */}}
{{- define "trustplane.binding" }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ if .in }}Role{{ else }}ClusterRole{{ end }}Binding
metadata:
  {{- /* Beside the one of the Role of the same name, if it is our own namespace. */}}
  name: {{ .name }}{{ if and .in (eq .kind "ClusterRole") }}-served{{ end }}
  {{- with .in }}
  namespace: {{ . }}
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
{{- end -}}
