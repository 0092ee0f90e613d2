{{/*
The objects that a process keeps at home: its Lease, and Secrets such as that of its CA, as JSON {"objects": [...]}. Their names
are those that its rights name. A name that stands for Secrets of the admin is none of them: an empty one would be no credential.
Takes root and process.
*/}}
{{- define "trustplane.kept" -}}
{{- $process := .process -}}
{{- $rules := (.root.Files.Get "files/capabilities.yaml" | fromYaml).process.rights.home -}}
{{- range $process.capabilities }}{{ $rules = concat $rules (.rights.home | default list) }}{{ end -}}
{{- $versions := dict "leases" "coordination.k8s.io/v1" "secrets" "v1" -}}
{{- $kinds := dict "leases" "Lease" "secrets" "Secret" -}}
{{- $objects := list -}}
{{- range $rule := $rules -}}
{{- range $name := $rule.resourceNames -}}
{{- range $resource := $rule.resources -}}
{{- if and (hasKey $kinds $resource) (ne $name "$(CREDENTIALS)") -}}
{{- $objects = append $objects (dict
    "apiVersion" (get $versions $resource)
    "kind" (get $kinds $resource)
    "name" ($name | replace "$(PROCESS)" $process.name)) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- dict "objects" ($objects | uniq) | toJson -}}
{{- end -}}
