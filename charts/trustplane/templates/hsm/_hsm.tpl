{{/* The capability hsm as JSON, or nothing if it does not run. */}}
{{- define "trustplane.hsm" -}}
{{- range (include "trustplane.enabled" . | fromJson).capabilities -}}
{{- if eq .name "hsm" }}{{ toJson . }}{{ end -}}
{{- end -}}
{{- end -}}

{{/* The account of discovery pods, the same in every namespace. */}}
{{- define "trustplane.hsm.discovery" -}}
{{ include "trustplane.fullname" . }}-discovery
{{- end -}}

{{/* The service accounts whose pods may request tokens: those of agents, and those that the values list. */}}
{{- define "trustplane.hsm.tokenUsers" -}}
{{- $users := list -}}
{{- with include "trustplane.hsm" . | fromJson -}}
{{- range .namespaces }}{{ $users = append $users (printf "%s/hsm-agent-*" .) }}{{ end -}}
{{- end -}}
{{- join "," (concat $users .Values.hsm.tokenUsers) -}}
{{- end -}}

{{/* What the manager is told about the capability, and about its other processes. Takes root and process. */}}
{{- define "trustplane.hsm.args" -}}
{{- $values := .root.Values.hsm -}}
{{- $tag := .root.Chart.AppVersion -}}
- --hsm-agent-image={{ include "trustplane.image" (merge (dict "tag" ($values.agent.image.tag | default $tag)) $values.agent.image) }}
- --hsm-discovery-image={{ include "trustplane.image" (merge (dict "tag" ($values.discovery.image.tag | default $tag)) $values.discovery.image) }}
- --hsm-image-pull-policy={{ .root.Values.image.pullPolicy }}
{{- with .root.Values.image.pullSecrets }}
- --hsm-image-pull-secrets={{ include "trustplane.names" . }}
{{- end }}
- --hsm-discovery-service-account={{ include "trustplane.hsm.discovery" .root }}
{{- with $values.hostDirectories }}
- --hsm-host-directories={{ join "," . }}
{{- end }}
{{- if $values.offerTypes }}
- --hsm-offer-types
{{- end }}
- --hsm-operator-names={{ prepend $values.operatorNames .process.name | join "," }}
{{- if $values.requireParentRef }}
- --hsm-require-parent-ref
{{- end }}
{{- with $values.secretNamespaces }}
- --hsm-secret-namespaces={{ join "," . }}
{{- end }}
{{- if eq $values.tenancy "namespaced" }}
- --hsm-tenancy=namespaced
{{- end }}
{{- end -}}
