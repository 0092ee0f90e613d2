{{/* The hub as a process: its name and its component label, as JSON. */}}
{{- define "trustplane.hub" -}}
{{- dict "name" (printf "%s-hub" (include "trustplane.fullname" .)) "component" "hub" | toJson -}}
{{- end -}}

{{/* Where the hub keeps its database and keys. The image has the directory for its user. */}}
{{- define "trustplane.hub.data" -}}
/var/lib/trustplane-hub
{{- end -}}

{{/* What the hub is told. The first URL is that of its Service. */}}
{{- define "trustplane.hub.args" -}}
{{- $hub := include "trustplane.hub" . | fromJson -}}
- --data-dir={{ include "trustplane.hub.data" . }}
- --agents-bind-address=:8443
- --console-bind-address=127.0.0.1:8480
- --url=https://{{ $hub.name }}.{{ .Release.Namespace }}.svc:8443
{{- range .Values.hub.urls }}
- --url={{ . }}
{{- end }}
- --admin-bind-address=:8080
- --health-probe-bind-address=:8081
- --log-format={{ .Values.log.format }}
- --log={{ .Values.log.filter }}
{{- with .Values.hub.extraArgs }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* The volume of the database: a claim, or an emptyDir, which is lost with the pod. */}}
{{- define "trustplane.hub.volume" -}}
{{- $hub := include "trustplane.hub" . | fromJson -}}
{{- $persistence := .Values.hub.persistence -}}
name: data
{{- if $persistence.existingClaim }}
persistentVolumeClaim: {claimName: {{ $persistence.existingClaim }}}
{{- else if $persistence.enabled }}
persistentVolumeClaim: {claimName: {{ $hub.name }}}
{{- else }}
emptyDir: {}
{{- end }}
{{- end -}}
