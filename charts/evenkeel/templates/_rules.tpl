{{/*
The operator's rights wherever it watches. Some verbs are only used by drivers of jobs: whoever creates a
Role must hold every right in it. Holding these rights is safer than having the verb escalate.
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
# Objects that it creates are owned by a group. Some clusters check who may set owner references.
- apiGroups: [evenkeel.dev]
  resources: [consumergroups/finalizers]
  verbs: [update]
- apiGroups: [""]
  resources: [events]
  verbs: [create]
# Assignments that do not fit into a status; the input and reports of jobs; whom members must trust.
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
# Protects the ports of drivers and executors.
- apiGroups: [networking.k8s.io]
  resources: [networkpolicies]
  verbs: [get, create, patch]
# Drivers also use update, to renew the Lease that the operator created.
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  verbs: [get, create, patch, update]
{{- else }}
- apiGroups: [""]
  resources: [pods]
  verbs: [list, watch]
{{- end }}
{{- end }}
