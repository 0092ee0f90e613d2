{{/* What the process is told. Takes root and process. */}}
{{- define "trustplane.args" -}}
- --leader-elect=true
{{- with include "trustplane.names" .process.capabilities }}
- --capabilities={{ . }}
{{- end }}
{{- range $capability := .process.capabilities }}
{{- with $capability.namespaces }}
- --{{ $capability.name }}-namespaces={{ join "," . }}
{{- end }}
{{- range $capability.arguments }}
- {{ . }}
{{- end }}
{{- end }}
{{- if has "hsm" (splitList "," (include "trustplane.names" .process.capabilities)) }}
{{ include "trustplane.hsm.args" . }}
{{- end }}
{{- if has "identity" (splitList "," (include "trustplane.names" .process.capabilities)) }}
{{ include "trustplane.identity.args" . }}
{{- end }}
- --name={{ .process.name }}
- --admin-bind-address=:8080
- --health-probe-bind-address=:8081
- --webhook-bind-address={{ if .process.webhooks }}:9443{{ else }}0{{ end }}
- --log-format={{ .root.Values.log.format }}
- --log={{ .root.Values.log.filter }}
{{- with .root.Values.deployment.extraArgs }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* The container of the manager. Takes root and process. */}}
{{- define "trustplane.container" -}}
{{- $values := .root.Values -}}
name: manager
image: {{ include "trustplane.image" (merge (dict "tag" ($values.image.tag | default .root.Chart.AppVersion)) $values.image) }}
imagePullPolicy: {{ $values.image.pullPolicy }}
args:
  {{- include "trustplane.args" . | nindent 2 }}
env:
  - name: POD_NAME
    valueFrom: {fieldRef: {fieldPath: metadata.name}}
  - name: POD_NAMESPACE
    valueFrom: {fieldRef: {fieldPath: metadata.namespace}}
  {{- with $values.deployment.extraEnv }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
ports:
  - {name: admin, containerPort: 8080, protocol: TCP}
  - {name: probes, containerPort: 8081, protocol: TCP}
  {{- if .process.webhooks }}
  - {name: webhook, containerPort: 9443, protocol: TCP}
  {{- end }}
livenessProbe:
  httpGet: {path: /livez, port: probes}
  periodSeconds: 10
  timeoutSeconds: 3
  failureThreshold: 3
readinessProbe:
  httpGet: {path: /readyz, port: probes}
  periodSeconds: 2
  timeoutSeconds: 2
  failureThreshold: 2
resources:
  {{- toYaml .process.resources | nindent 2 }}
{{- with $values.deployment.extraVolumeMounts }}
volumeMounts:
  {{- toYaml . | nindent 2 }}
{{- end }}
securityContext:
  {{- include "trustplane.hardened" . | nindent 2 }}
{{- end -}}

{{/* The security context of a container of ours: it fits the restricted profile. */}}
{{- define "trustplane.hardened" -}}
allowPrivilegeEscalation: false
capabilities: {drop: [ALL]}
privileged: false
readOnlyRootFilesystem: true
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
seccompProfile: {type: RuntimeDefault}
{{- end -}}
