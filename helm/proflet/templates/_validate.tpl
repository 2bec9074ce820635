{{/*
What the schema cannot say: ranges of values with units (files/ranges.yaml, made from the agent's table of keys), and
values that contradict each other. Fails with the key's name.
*/}}
{{- define "proflet.validate" -}}
{{- $ranges := .Files.Get "files/ranges.yaml" | fromYaml }}
{{- $config := .Values.config }}
{{- range $name, $range := $ranges.keys }}
{{- $value := $config }}
{{- range splitList "." $name }}
{{- if kindIs "map" $value }}{{ $value = get $value . }}{{ else }}{{ $value = "" }}{{ end }}
{{- end }}
{{- if and $value (kindIs "string" $value) }}
{{- $number := regexFind "^[0-9.]+" $value }}
{{- $unit := trimPrefix $number $value }}
{{- $base := mulf (float64 $number) (get (get $ranges.units $range.kind) $unit) }}
{{- if or (lt $base (float64 $range.min)) (gt $base (float64 $range.max)) }}
{{- fail (printf "config.%s: %q is not %s" $name $value $range.accepted) }}
{{- end }}
{{- end }}
{{- end }}
{{- if and (or .Values.serviceMonitor.enabled .Values.podMonitor.enabled .Values.service.enabled) (not (include "proflet.reachablePort" .)) }}
{{- fail "config.listen: service, podMonitor and serviceMonitor need an address that other pods reach, such as \":9464\"" }}
{{- end }}
{{- with .Values.tlsSecret }}
{{- if and .name (ne (empty .certKey) (empty .keyKey)) }}
{{- fail "tlsSecret.certKey and tlsSecret.keyKey: a client certificate needs both" }}
{{- end }}
{{- end }}
{{- if .Values.securityContext.privileged }}
{{- fail "securityContext.privileged: the agent does not need it; the capabilities in securityContext.capabilities are enough" }}
{{- end }}
{{- end }}
