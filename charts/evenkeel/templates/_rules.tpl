{{/*
What the operator may do wherever it watches. No verb here is unused, but for those that a job's driver
has: who makes a Role must hold every right in it, and holding them is less than the verb escalate.
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
# What it makes is owned by a group, and some clusters ask who may say so.
- apiGroups: [evenkeel.dev]
  resources: [consumergroups/finalizers]
  verbs: [update]
- apiGroups: [""]
  resources: [events]
  verbs: [create]
# Assignments that are too long for a status; what jobs read, and what they report.
- apiGroups: [""]
  resources: [configmaps]
  verbs: [{{ if .Values.jobs.enabled }}get, patch, {{ end }}list, watch, create, delete]
{{- if .Values.rbac.secrets.enabled }}
# Credentials and authorities that Topics name.
- apiGroups: [""]
  resources: [secrets]
  {{- with .Values.rbac.secrets.names }}
  resourceNames:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  verbs: [get]
{{- end }}
{{- if .Values.jobs.enabled }}
# deletecollection is the driver's: Spark clears its executors away with it.
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
# Who reaches the ports at which driver and executors talk.
- apiGroups: [networking.k8s.io]
  resources: [networkpolicies]
  verbs: [get, create, patch]
# update is also the driver's, which renews the Lease that the operator has made.
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  verbs: [get, create, patch, update]
{{- else }}
- apiGroups: [""]
  resources: [pods]
  verbs: [list, watch]
{{- end }}
{{- end }}
