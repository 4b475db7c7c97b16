{{- define "evenkeel.name" -}}
{{- .Values.nameOverride | default .Chart.Name }}
{{- end }}

{{- define "evenkeel.fullname" -}}
{{- $name := include "evenkeel.name" . }}
{{- $made := contains $name .Release.Name | ternary .Release.Name (printf "%s-%s" .Release.Name $name) }}
{{- .Values.fullnameOverride | default $made | replace "." "-" | trunc 52 | trimAll "-" }}
{{- end }}

{{- define "evenkeel.account" -}}
{{- $made := .Values.serviceAccount.create | ternary (include "evenkeel.fullname" .) "default" }}
{{- .Values.serviceAccount.name | default $made }}
{{- end }}

{{- define "evenkeel.selector" -}}
app.kubernetes.io/name: {{ include "evenkeel.name" . | quote }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
app.kubernetes.io/component: operator
{{- end }}

{{- define "evenkeel.labels" -}}
{{- $ours := include "evenkeel.selector" . | fromYaml }}
{{- $_ := set $ours "app.kubernetes.io/version" .Chart.AppVersion }}
{{- $_ := set $ours "app.kubernetes.io/managed-by" .Release.Service }}
{{- $_ := set $ours "helm.sh/chart" (printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_") }}
{{- merge $ours (.Values.commonLabels | default dict) | toYaml }}
{{- end }}

{{/* An image's full name. Takes image and root. */}}
{{- define "evenkeel.image" -}}
{{- with .image.registry }}{{ trimSuffix "/" . }}/{{ end }}{{ .image.repository }}
{{- if .image.digest }}@{{ .image.digest }}{{ else }}:{{ .image.tag | default .root.Chart.AppVersion }}{{ end }}
{{- end }}

{{/* Convert a duration such as 1500ms or 2m to milliseconds. */}}
{{- define "evenkeel.milliseconds" -}}
{{- $unit := dict "ms" 1 "s" 1000 "m" 60000 "h" 3600000 }}
{{- mul (regexFind "[0-9]+" .) (index $unit (regexFind "[a-z]+" .)) }}
{{- end }}

{{/* The namespace in which `helm test` creates its objects. */}}
{{- define "evenkeel.testNamespace" -}}
{{- $watched := .Values.watch.namespaces | default list }}
{{- if or (empty $watched) (has .Release.Namespace $watched) }}
{{- .Release.Namespace }}
{{- else }}
{{- first $watched }}
{{- end }}
{{- end }}
