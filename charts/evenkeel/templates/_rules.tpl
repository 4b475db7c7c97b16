{{/*
The operator's rights in every namespace that it watches. Only drivers of jobs use some of these verbs. The operator
holds them too, because it creates the drivers' Roles, and whoever creates a Role must hold every right in it. This is
safer than the verb escalate.
*/}}
{{- define "evenkeel.rules" -}}
- apiGroups: [evenkeel.dev]
  resources: [topics]
  verbs: [list, watch]
- apiGroups: [evenkeel.dev]
  resources: [consumergroups]
  verbs: [{{ if .Values.jobs.enabled }}get, {{ end }}list, watch]
- apiGroups: [evenkeel.dev]
  resources: [topics/status, consumergroups/status]
  verbs: [update]
# The objects that the operator creates are owned by a group. Some clusters check who may set owner references.
- apiGroups: [evenkeel.dev]
  resources: [consumergroups/finalizers]
  verbs: [update]
- apiGroups: [""]
  resources: [events]
  verbs: [create]
# Assignments that do not fit into a status; the input and reports of jobs; the certificate authority for members.
- apiGroups: [""]
  resources: [configmaps]
  verbs: [{{ if or .Values.jobs.enabled .Values.members.enabled }}get, patch, {{ end }}list, watch, create, delete]
{{- if .Values.rbac.secrets.enabled }}
# Credentials and CA certificates that Topics name.
- apiGroups: [""]
  resources: [secrets]
  {{- with .Values.rbac.secrets.names }}
  resourceNames:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  verbs: [get]
{{- end }}
{{- if .Values.jobs.enabled }}
# Only drivers use deletecollection: Spark removes its executors with it.
- apiGroups: [""]
  resources: [pods]
  verbs: [get, list, watch, create, patch, delete, deletecollection]
- apiGroups: [""]
  resources: [persistentvolumeclaims]
  verbs: [get]
- apiGroups: [""]
  resources: [serviceaccounts]
  verbs: [get, create, patch]
- apiGroups: [rbac.authorization.k8s.io]
  resources: [roles, rolebindings]
  verbs: [get, create, patch]
# To protect the ports of drivers and executors.
- apiGroups: [networking.k8s.io]
  resources: [networkpolicies]
  verbs: [get, create, patch]
# Only drivers use update: they renew the Lease that the operator has created.
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  verbs: [get, create, patch, update]
{{- else }}
- apiGroups: [""]
  resources: [pods]
  verbs: [list, watch]
{{- end }}
{{- end }}
