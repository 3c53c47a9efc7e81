{{- define "homenode.labels" -}}
app.kubernetes.io/name: homenode
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | replace "+" "_" | replace "~" "-" | quote }}
{{- end }}
{{- define "homenode.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}
{{- define "homenode.config" -}}
{{ merge (dict "mode" .Values.mode) .Values.config | toYaml }}
{{- end }}
