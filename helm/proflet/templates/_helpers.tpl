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

{{/* {"is": VALUE} as JSON, where VALUE is .value with each string in it rendered as a template of .at. */}}
{{- define "proflet.expand" -}}
{{- $at := .at }}
{{- $out := .value }}
{{- if kindIs "string" .value }}
{{- if contains "{{" .value }}{{ $out = tpl .value $at }}{{ end }}
{{- else if kindIs "map" .value }}
{{- $out = dict }}
{{- range $key, $item := .value }}
{{- $_ := set $out (tpl $key $at) (include "proflet.expand" (dict "value" $item "at" $at) | fromJson).is }}
{{- end }}
{{- else if kindIs "slice" .value }}
{{- $out = list }}
{{- range .value }}{{ $out = append $out (include "proflet.expand" (dict "value" . "at" $at) | fromJson).is }}{{ end }}
{{- end }}
{{- dict "is" $out | toJson }}
{{- end }}

{{/* The same as YAML. */}}
{{- define "proflet.yaml" -}}
{{- (include "proflet.expand" . | fromJson).is | toYaml }}
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
{{ include "proflet.yaml" (dict "value" . "at" $) }}
{{- end }}
{{- end }}

{{- define "proflet.serviceAccountName" -}}
{{- $otherwise := "default" }}
{{- if .Values.serviceAccount.create }}{{ $otherwise = include "proflet.fullname" . }}{{ end }}
{{- default $otherwise (tpl (default "" .Values.serviceAccount.name) .) }}
{{- end }}

{{- define "proflet.configMapName" -}}
{{- default (include "proflet.fullname" .) (tpl (default "" .Values.existingConfigMap) .) }}
{{- end }}

{{/* A parent chart's registry takes the place of the one in image.repository: a first part with a dot or port, or localhost. */}}
{{- define "proflet.image" -}}
{{- $global := (.Values.global).imageRegistry }}
{{- $repository := .Values.image.repository }}
{{- if $global }}{{ $repository = regexReplaceAll "^([^/]*[.:][^/]*|localhost)/" $repository "" }}{{ end }}
{{- with default .Values.image.registry $global }}{{ $repository = printf "%s/%s" . $repository }}{{ end }}
{{- if .Values.image.digest }}
{{- printf "%s@%s" $repository .Values.image.digest }}
{{- else }}
{{- printf "%s:%s" $repository (default .Chart.AppVersion .Values.image.tag) }}
{{- end }}
{{- end }}

{{/* The parent chart's secrets and this chart's, each once, as YAML; empty: none. */}}
{{- define "proflet.pullSecrets" -}}
{{- $secrets := list }}
{{- range concat (default list (.Values.global).imagePullSecrets) (default list .Values.imagePullSecrets) }}
{{- $name := . }}
{{- if kindIs "map" . }}{{ $name = .name }}{{ end }}
{{- $secrets = append $secrets (dict "name" (tpl $name $)) }}
{{- end }}
{{- with uniq $secrets }}{{ toYaml . }}{{ end }}
{{- end }}

{{/* .Values.affinity, and in each of its terms about nodes the architectures that the image has, as YAML; empty: none. */}}
{{- define "proflet.affinity" -}}
{{- $affinity := (include "proflet.expand" (dict "value" (default dict .Values.affinity) "at" .) | fromJson).is }}
{{- with .Values.image.architectures }}
{{- $required := dig "nodeAffinity" "requiredDuringSchedulingIgnoredDuringExecution" dict $affinity }}
{{- $terms := list }}
{{- range default (list dict) $required.nodeSelectorTerms }}
{{- $expressions := default list .matchExpressions }}
{{- if not (contains "\"kubernetes.io/arch\"" (toJson $expressions)) }}
{{- $expressions = append $expressions (dict "key" "kubernetes.io/arch" "operator" "In" "values" $.Values.image.architectures) }}
{{- end }}
{{- $terms = append $terms (set (deepCopy .) "matchExpressions" $expressions) }}
{{- end }}
{{- $node := default dict $affinity.nodeAffinity }}
{{- $_ := set $node "requiredDuringSchedulingIgnoredDuringExecution" (dict "nodeSelectorTerms" $terms) }}
{{- $_ := set $affinity "nodeAffinity" $node }}
{{- end }}
{{- with $affinity }}{{ toYaml . }}{{ end }}
{{- end }}

{{/*
Why a node cannot have two agents at once, which maxSurge needs; empty: it can. Each has a network, control group and file
system of its own otherwise. A spool is locked: a second agent has it when the first has ended.
*/}}
{{- define "proflet.onlyOne" -}}
{{- if and .Values.hostNetwork (include "proflet.port" .) -}}
hostNetwork with config.listen
{{- else if contains "\"hostPort\"" (toJson (list .Values.extraContainers .Values.initContainers)) -}}
a hostPort of extraContainers or initContainers
{{- end }}
{{- end }}

{{- define "proflet.updateStrategy" -}}
{{- $strategy := deepCopy (default (dict "type" "RollingUpdate") .Values.updateStrategy) }}
{{- if eq (default "" $strategy.type) "OnDelete" }}
{{- $_ := unset $strategy "rollingUpdate" }}
{{- else if not $strategy.rollingUpdate }}
{{- $surge := dict "maxSurge" "10%" "maxUnavailable" 0 }}
{{- if include "proflet.onlyOne" . }}{{ $surge = dict "maxUnavailable" "10%" }}{{ end }}
{{- $_ := set $strategy "rollingUpdate" $surge }}
{{- end }}
{{- toYaml $strategy }}
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

{{/* config.endpoint, or empty: set elsewhere. */}}
{{- define "proflet.endpoint" -}}
{{- tpl (default "" .Values.config.endpoint) . }}
{{- end }}

{{/* The port of config.endpoint. */}}
{{- define "proflet.collectorPort" -}}
{{- include "proflet.withoutNulls" .Values.config }}
{{- $host := regexReplaceAll "^[A-Za-z]+://([^/]*).*$" (include "proflet.endpoint" .) "${1}" }}
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
{{- if .Values.listenTokenSecret.name }}
{{- $_ := set $added "listen_token_file" "/etc/proflet/listen/token" }}
{{- end }}
{{- if .Values.spool.type }}
{{- $_ := set $added "queue" (dict "spool" "/var/lib/proflet/spool") }}
{{- end }}
{{- $config := mergeOverwrite $added (deepCopy .Values.config) }}
{{- /* a bare "off" is false in YAML 1.1 */}}
{{- if and (hasKey $config "listen") (kindIs "bool" $config.listen) }}{{ $_ := set $config "listen" "off" }}{{ end }}
{{- if kindIs "bool" (dig "queue" "spool" "" $config) }}{{ $_ := set $config.queue "spool" "off" }}{{ end }}
{{- include "proflet.yaml" (dict "value" $config "at" .) }}
{{- end }}
