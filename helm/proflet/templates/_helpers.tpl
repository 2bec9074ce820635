{{/* The chart's name, and the name of what it makes. */}}
{{- define "proflet.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- define "proflet.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 63 | trimSuffix "-" }}
{{- else }}
{{- $name := default .Chart.Name .Values.nameOverride }}
{{- if contains $name .Release.Name }}
{{- .Release.Name | trunc 63 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name $name | trunc 63 | trimSuffix "-" }}
{{- end }}
{{- end }}
{{- end }}

{{- define "proflet.namespace" -}}
{{- default .Release.Namespace .Values.namespaceOverride }}
{{- end }}

{{/* Cluster-wide objects of two releases in two namespaces must not meet. */}}
{{- define "proflet.clusterName" -}}
{{- printf "%s-%s" (include "proflet.namespace" .) (include "proflet.fullname" .) | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- define "proflet.selectorLabels" -}}
app.kubernetes.io/name: {{ include "proflet.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "proflet.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{ include "proflet.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/component: profiler
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- with .Values.additionalLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "proflet.serviceAccountName" -}}
{{- if .Values.serviceAccount.create }}
{{- default (include "proflet.fullname" .) .Values.serviceAccount.name }}
{{- else }}
{{- default "default" .Values.serviceAccount.name }}
{{- end }}
{{- end }}

{{- define "proflet.image" -}}
{{- if .Values.image.digest }}
{{- printf "%s@%s" .Values.image.repository .Values.image.digest }}
{{- else }}
{{- printf "%s:%s" .Values.image.repository (default .Chart.AppVersion .Values.image.tag) }}
{{- end }}
{{- end }}

{{/* Takes the keys out of a map whose value is null: helm does so itself, but not of what an upgrade reuses. */}}
{{- define "proflet.withoutNulls" -}}
{{- $map := . }}
{{- range $key, $value := $map }}
{{- if kindIs "invalid" $value }}{{ $_ := unset $map $key }}{{ else if kindIs "map" $value }}{{ include "proflet.withoutNulls" $value }}{{ end }}
{{- end }}
{{- end }}

{{/* "true" or empty. */}}
{{- define "proflet.metadata" -}}
{{- include "proflet.withoutNulls" .Values.config }}
{{- if (dig "kubernetes" "metadata" false .Values.config) }}true{{ end }}
{{- end }}

{{/* The port of config.listen, or empty: none. */}}
{{- define "proflet.port" -}}
{{- include "proflet.withoutNulls" .Values.config }}
{{- $listen := dig "listen" "127.0.0.1:9464" .Values.config | toString }}
{{- if not (has $listen (list "off" "false" "")) }}{{ regexFind "[0-9]+$" $listen }}{{ end }}
{{- end }}

{{/* Empty where nothing outside the container can reach config.listen, so that probes would only fail. */}}
{{- define "proflet.reachablePort" -}}
{{- include "proflet.withoutNulls" .Values.config }}
{{- $listen := dig "listen" "127.0.0.1:9464" .Values.config | toString }}
{{- if not (or (hasPrefix "127." $listen) (hasPrefix "localhost:" $listen) (hasPrefix "[::1]:" $listen)) }}
{{- include "proflet.port" . }}
{{- end }}
{{- end }}

{{/* The port of config.endpoint. */}}
{{- define "proflet.collectorPort" -}}
{{- include "proflet.withoutNulls" .Values.config }}
{{- $endpoint := dig "endpoint" "http://localhost:4317" .Values.config }}
{{- $host := regexReplaceAll "^[a-z]+://([^/]*).*$" $endpoint "${1}" }}
{{- $port := regexFind ":[0-9]+$" $host | trimPrefix ":" }}
{{- if $port }}{{ $port }}{{ else if eq (dig "protocol" "grpc" .Values.config) "grpc" }}4317{{ else }}4318{{ end }}
{{- end }}

{{/* The configuration file: the values, and what the settings of secrets and spool add where the values say nothing. */}}
{{- define "proflet.config" -}}
{{- include "proflet.withoutNulls" .Values.config }}
{{- $added := dict }}
{{- if .Values.headersSecret.name }}
{{- $_ := set $added "headers_file" "/etc/proflet/headers/headers" }}
{{- end }}
{{- with .Values.tlsSecret }}
{{- if .name }}
{{- $tls := dict }}
{{- if .caKey }}{{ $_ := set $tls "ca" "/etc/proflet/tls/ca.crt" }}{{ end }}
{{- if .certKey }}{{ $_ := set $tls "cert" "/etc/proflet/tls/tls.crt" }}{{ end }}
{{- if .keyKey }}{{ $_ := set $tls "key" "/etc/proflet/tls/tls.key" }}{{ end }}
{{- $_ := set $added "tls" $tls }}
{{- end }}
{{- end }}
{{- if .Values.spool.type }}
{{- $_ := set $added "queue" (dict "spool" "/var/lib/proflet/spool") }}
{{- end }}
{{- $config := mergeOverwrite $added (deepCopy .Values.config) }}
{{- /* a bare "off" is false in YAML 1.1 */}}
{{- if and (hasKey $config "listen") (kindIs "bool" $config.listen) }}{{ $_ := set $config "listen" "off" }}{{ end }}
{{- if kindIs "bool" (dig "queue" "spool" "" $config) }}{{ $_ := set $config.queue "spool" "off" }}{{ end }}
{{- toYaml $config }}
{{- end }}
