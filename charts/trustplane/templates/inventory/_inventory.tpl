{{/* The Secrets of our own namespace with which an ObsykAgent may sign in, as JSON {"names": [...]}. */}}
{{- define "trustplane.inventory.credentials" -}}
{{- $names := .Values.inventory.credentialsSecrets | default list -}}
{{- if .Values.inventory.agent.enabled }}{{ $names = append $names .Values.inventory.agent.credentialsSecretRef.name }}{{ end -}}
{{- dict "names" (uniq $names) | toJson -}}
{{- end -}}

{{/* The processes that run the capability inventory, as JSON {"processes": [...]}. */}}
{{- define "trustplane.inventory.processes" -}}
{{- $found := list -}}
{{- range (include "trustplane.processes" . | fromJson).processes -}}
{{- if has "inventory" (splitList "," (include "trustplane.names" .capabilities)) }}{{ $found = append $found . }}{{ end -}}
{{- end -}}
{{- dict "processes" $found | toJson -}}
{{- end -}}
