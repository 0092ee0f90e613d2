{{/*
The capabilities that run, as JSON {"capabilities": [...]}, each with the namespaces that it is kept to, if it is, with those of its
tenants, if they are listed, and with the rights, CRDs, policies and arguments of those of its parts that are on.
A capability that is enabled by name switches the choice from "all but the disabled ones" to "only the enabled ones".
An opt-in capability runs only if it is enabled by name, and does not switch that choice.
*/}}
{{- define "trustplane.enabled" -}}
{{- $build := .Files.Get "files/capabilities.yaml" | fromYaml -}}
{{- $names := list -}}
{{- $optIn := list -}}
{{- range $build.capabilities -}}
{{- $names = append $names .name -}}
{{- if .optIn }}{{ $optIn = append $optIn .name }}{{ end -}}
{{- end -}}
{{- $only := false -}}
{{- range $name, $settings := .Values.capabilities -}}
{{- if not (has $name $names) -}}
{{- fail (printf "capabilities.%s: this build has no such capability; it has: %s" $name (join ", " $names | default "none")) -}}
{{- end -}}
{{- if and (eq (toString $settings.enabled) "true") (not (has $name $optIn)) }}{{ $only = true }}{{ end -}}
{{- end -}}
{{- $enabled := list -}}
{{- range $build.capabilities -}}
{{- $said := toString (dig .name "enabled" "" $.Values.capabilities) -}}
{{- $namespaces := dig .name "namespaces" list $.Values.capabilities -}}
{{- if and .atHome (not $namespaces) }}{{ $namespaces = list $.Release.Namespace }}{{ end -}}
{{- $_ := set . "namespaces" $namespaces -}}
{{- $_ := set . "tenants" (eq .name "hsm" | ternary $.Values.hsm.secretNamespaces list) -}}
{{- include "trustplane.parts" (dict "capability" . "values" (dig .name "parts" dict $.Values.capabilities)) -}}
{{- if or (eq $said "true") (and (not .optIn) (not $only) (ne $said "false")) }}{{ $enabled = append $enabled . }}{{ end -}}
{{- end -}}
{{- dict "capabilities" $enabled | toJson -}}
{{- end -}}

{{/*
Adds to a capability what its parts bring that are on, and its `arguments`. A part is on or off by the values, else by what the
code says. Takes capability and values, and renders nothing.
*/}}
{{- define "trustplane.parts" -}}
{{- $capability := .capability -}}
{{- $values := .values -}}
{{- $names := list -}}
{{- range $capability.parts }}{{ $names = append $names .name }}{{ end -}}
{{- range $name, $_ := $values -}}
{{- if not (has $name $names) -}}
{{- fail (printf "capabilities.%s.parts.%s: this capability has no such part; it has: %s" $capability.name $name (join ", " $names | default "none")) -}}
{{- end -}}
{{- end -}}
{{- $arguments := list -}}
{{- range $part := $capability.parts -}}
{{- if hasKey $values $part.name | ternary (get $values $part.name) $part.isOn -}}
{{- $arguments = concat $arguments ($part.arguments | default list) -}}
{{- range $list := list "crds" "policies" -}}
{{- $_ := set $capability $list (concat (get $capability $list | default list) (get $part $list | default list)) -}}
{{- end -}}
{{- range $place, $rules := $part.rights -}}
{{- $_ := set $capability.rights $place (concat (get $capability.rights $place | default list) ($rules | default list)) -}}
{{- end -}}
{{- else -}}
{{- $arguments = concat $arguments ($part.argumentsWithout | default list) -}}
{{- end -}}
{{- end -}}
{{- $_ := set $capability "arguments" $arguments -}}
{{- end -}}

{{/*
The processes of the manager, as JSON {"processes": [...]}: one for all capabilities, or one for each.
A process is a name (of its Deployment, ServiceAccount, Lease, Service), a component label, its capabilities with all
their CRDs and webhooks, the namespaces that it is kept to (none if one of its capabilities is not), and what the values
say of its size.
*/}}
{{- define "trustplane.processes" -}}
{{- $fullname := include "trustplane.fullname" . -}}
{{- $enabled := (include "trustplane.enabled" . | fromJson).capabilities -}}
{{- $processes := list -}}
{{- if .Values.deployment.perCapability -}}
{{- if not $enabled }}{{ fail "deployment.perCapability: no capability is enabled, so there is nothing to deploy" }}{{ end -}}
{{- range $enabled -}}
{{- $settings := get $.Values.capabilities .name | default dict -}}
{{- $processes = append $processes (dict
    "name" (printf "%s-%s" $fullname .name)
    "component" (printf "manager-%s" .name)
    "capabilities" (list .)
    "replicas" (hasKey $settings "replicas" | ternary $settings.replicas $.Values.deployment.replicas)
    "resources" ($settings.resources | default $.Values.deployment.resources)) -}}
{{- end -}}
{{- else -}}
{{- $processes = append $processes (dict
    "name" (printf "%s-manager" $fullname)
    "component" "manager"
    "capabilities" $enabled
    "replicas" .Values.deployment.replicas
    "resources" .Values.deployment.resources) -}}
{{- end -}}
{{- range $process := $processes -}}
{{- $crds := list -}}
{{- $webhooks := list -}}
{{- $namespaces := list -}}
{{- $kept := true -}}
{{- range $process.capabilities -}}
{{- $namespaces = concat $namespaces .namespaces | uniq -}}
{{- if not .namespaces }}{{ $kept = false }}{{ end -}}
{{- $crds = concat $crds (.crds | default list) -}}
{{- $webhooks = concat $webhooks (.webhooks | default list) -}}
{{- end -}}
{{- $_ := set $process "crds" $crds -}}
{{- $_ := set $process "webhooks" $webhooks -}}
{{- $_ := set $process "namespaces" ($kept | ternary $namespaces list) -}}
{{- end -}}
{{- dict "processes" $processes | toJson -}}
{{- end -}}

{{/* The names of a list of things, comma-separated. */}}
{{- define "trustplane.names" -}}
{{- $names := list -}}
{{- range . }}{{ $names = append $names .name }}{{ end -}}
{{- join "," $names -}}
{{- end -}}
