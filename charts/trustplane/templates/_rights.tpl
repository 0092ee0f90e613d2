{{/*
The rights of a process or of a capability, each where it holds: on the cluster and in every namespace; in the namespaces that
are served, and in those of their users (tenants), which are all if none is listed; at home; in `default`. Takes root, process,
name, rights, namespaces and tenants.
*/}}
{{- define "trustplane.rights" -}}
{{- $to := dict "root" .root "process" .process -}}
{{- $wide := concat (.rights.cluster | default list) (.rights.everywhere | default list) -}}
{{- include "trustplane.grant" (merge (dict "kind" "Role" "name" .name "rules" .rights.home "in" .root.Release.Namespace) $to) }}
{{- include "trustplane.grant" (merge (dict "kind" "ClusterRole" "name" .name "rules" .rights.served "namespaces" .namespaces "suffix" "-served") $to) }}
{{- include "trustplane.grant" (merge (dict "kind" "ClusterRole" "name" (printf "%s-tenants" .name) "rules" .rights.tenants "namespaces" .tenants) $to) }}
{{- include "trustplane.grant" (merge (dict "kind" "ClusterRole" "name" (printf "%s-everywhere" .name) "rules" $wide) $to) }}
{{- include "trustplane.grant" (merge (dict "kind" "Role" "name" (printf "%s-default" .name) "rules" .rights.default "in" "default") $to) }}
{{- end -}}

{{/*
A Role or ClusterRole and its binding to a process, or nothing when there is nothing to permit.
Takes root, process, kind (Role or ClusterRole), name and rules; for a Role its namespace (`in`); for a ClusterRole perhaps
namespaces: then it is bound in those alone, by bindings whose name perhaps has a suffix.
*/}}
{{- define "trustplane.grant" -}}
{{- $rules := (include "trustplane.rules" . | fromJson).rules -}}
{{- if $rules }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ .kind }}
metadata:
  name: {{ .name }}
  {{- with .in }}
  namespace: {{ . }}
  {{- end }}
  labels:
    {{- include "trustplane.labels" . | nindent 4 }}
rules:
  {{- toYaml $rules | replace "$(PROCESS)" .process.name | nindent 2 }}
{{- if .namespaces }}
{{- range .namespaces }}
{{- include "trustplane.binding" (merge (dict "in" .) $) }}
{{- end }}
{{- else }}
{{- include "trustplane.binding" . }}
{{- end }}
{{- end }}
{{- end -}}

{{/*
Rules as JSON {"rules": [...]}. `$(CREDENTIALS)` among the names of a rule stands for the Secrets with which an ObsykAgent may sign in.
A rule that is left without a name is left out: without names it would permit every object. Takes root and rules.
*/}}
{{- define "trustplane.rules" -}}
{{- $rules := list -}}
{{- $credentials := (include "trustplane.inventory.credentials" .root | fromJson).names -}}
{{- range .rules -}}
{{- if has "$(CREDENTIALS)" (.resourceNames | default list) -}}
{{- $names := concat (without .resourceNames "$(CREDENTIALS)") $credentials | uniq -}}
{{- if $names }}{{ $rules = append $rules (merge (dict "resourceNames" $names) (omit . "resourceNames")) }}{{ end -}}
{{- else -}}
{{- $rules = append $rules . -}}
{{- end -}}
{{- end -}}
{{- dict "rules" $rules | toJson -}}
{{- end -}}

{{/* A role bound to a process: in a namespace (`in`), or everywhere. Takes root, process, kind, name and perhaps suffix. */}}
{{- define "trustplane.binding" }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ if .in }}Role{{ else }}ClusterRole{{ end }}Binding
metadata:
  {{- /* With the suffix it stands beside the one of the Role of the same name, if it is our own namespace. */}}
  name: {{ .name }}{{ if .in }}{{ .suffix | default "" }}{{ end }}
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
