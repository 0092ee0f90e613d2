{{- define "trustplane.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{/* The prefix of every object. Short enough that a capability's name still fits behind it. */}}
{{- define "trustplane.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- else if contains (include "trustplane.name" .) .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name (include "trustplane.name" .) | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{/* Labels that never change in the life of a process: selectors are immutable. Takes root and process. */}}
{{- define "trustplane.selector" -}}
app.kubernetes.io/name: {{ include "trustplane.name" .root }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .process.component }}
{{- end -}}

{{/* Labels of the pods of a process: a new chart with the same application restarts nothing. Takes root and process. */}}
{{- define "trustplane.podLabels" -}}
{{ include "trustplane.selector" . }}
app.kubernetes.io/part-of: trustplane
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
{{- end -}}

{{/* Labels of every other object of a process. Takes root and process. */}}
{{- define "trustplane.labels" -}}
{{ include "trustplane.podLabels" . }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name (.root.Chart.Version | replace "+" "_") }}
{{- end -}}

{{- define "trustplane.image" -}}
{{- $repository := .repository -}}
{{- if .registry }}{{ $repository = printf "%s/%s" .registry .repository }}{{ end -}}
{{- if .digest -}}
{{- printf "%s@%s" $repository .digest -}}
{{- else -}}
{{- printf "%s:%s" $repository .tag -}}
{{- end -}}
{{- end -}}
