{{/* What the manager is told about the capability identity. Takes root and process. */}}
{{- define "trustplane.identity.args" -}}
{{- $values := .root.Values.identity -}}
- --identity-server-image={{ include "trustplane.image" $values.images.spireServer }}
- --identity-agent-image={{ include "trustplane.image" $values.images.spireAgent }}
- --identity-oidc-image={{ include "trustplane.image" $values.images.oidcDiscoveryProvider }}
- --identity-controller-manager-image={{ include "trustplane.image" $values.images.spireControllerManager }}
- --identity-csi-driver-image={{ include "trustplane.image" $values.images.spiffeCsiDriver }}
- --identity-registrar-image={{ include "trustplane.image" $values.images.nodeDriverRegistrar }}
- --identity-csi-init-image={{ include "trustplane.image" $values.images.csiInit }}
- --identity-image-pull-policy={{ $values.pullPolicy }}
- --identity-kubelet-root={{ $values.kubeletRoot }}
{{- if $values.selinux }}
- --identity-selinux
{{- end }}
{{- if $values.createOnly }}
- --identity-create-only=true
{{- end }}
{{- end -}}
