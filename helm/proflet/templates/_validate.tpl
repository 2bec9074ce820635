{{/*
What the schema cannot say: ranges of values with units (files/ranges.yaml, made from the agent's table of keys), and
values that contradict each other. Fails with the names of the keys, and with what to write instead.
*/}}
{{- define "proflet.validate" -}}
{{- $config := include "proflet.config" . | fromYaml }}
{{- $all := dict "config" $config "at" . }}
{{- include "proflet.validate.ranges" $all }}
{{- if and (or .Values.serviceMonitor.enabled .Values.podMonitor.enabled .Values.service.enabled) (not (include "proflet.reachablePort" .)) }}
{{- fail "config.listen: service, podMonitor and serviceMonitor need an address that other pods reach, such as \":9464\"" }}
{{- end }}
{{- if and (.Values.prometheusRule).enabled (not (include "proflet.reachablePort" .)) }}
{{- fail "config.listen: prometheusRule needs metrics that Prometheus reaches; set it to \":9464\", with podMonitor.enabled or serviceMonitor.enabled" }}
{{- end }}
{{- if and .Values.listenTokenSecret.name (not (include "proflet.reachablePort" .)) }}
{{- fail "listenTokenSecret: config.listen is an address that only this pod reaches, so that nobody could use the token: set it to \":9464\"" }}
{{- end }}
{{- with .Values.tlsSecret }}
{{- if and .name (ne (empty .certKey) (empty .keyKey)) }}
{{- fail "tlsSecret.certKey and tlsSecret.keyKey: a client certificate needs both" }}
{{- end }}
{{- end }}
{{- if .Values.securityContext.privileged }}
{{- fail "securityContext.privileged: the agent does not need it; the capabilities in securityContext.capabilities are enough" }}
{{- end }}
{{- include "proflet.validate.endpoint" $all }}
{{- include "proflet.validate.selectors" $all }}
{{- include "proflet.validate.memory" $all }}
{{- include "proflet.validate.spool" $all }}
{{- include "proflet.validate.nodes" . }}
{{- include "proflet.validate.names" . }}
{{- include "proflet.validate.update" . }}
{{- end }}

{{/* "256MiB" of the agent, "256Mi" of Kubernetes or a number, in bytes. */}}
{{- define "proflet.bytes" -}}
{{- if kindIs "string" . }}
{{- $units := dict "" 1 "B" 1 "m" 0.001 "k" 1e3 "M" 1e6 "G" 1e9 "T" 1e12 "Ki" 1024 "Mi" 1048576 "Gi" 1073741824 "Ti" 1099511627776 }}
{{- $number := regexFind "^[0-9.]+" . }}
{{- $unit := trimPrefix $number . }}
{{- if ne $unit "B" }}{{ $unit = trimSuffix "B" $unit }}{{ end }}
{{- mulf (float64 $number) (float64 (get $units $unit)) | int64 }}
{{- else }}
{{- int64 . }}
{{- end }}
{{- end }}

{{- define "proflet.validate.ranges" -}}
{{- $ranges := .at.Files.Get "files/ranges.yaml" | fromYaml }}
{{- $config := .config }}
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
{{- end }}

{{/* "true" where a Collector may listen at the agent's own localhost: one beside it in the pod, or on the node. */}}
{{- define "proflet.hasLocalCollector" -}}
{{- if or .Values.hostNetwork .Values.extraContainers (contains "\"restartPolicy\":\"Always\"" (toJson .Values.initContainers)) }}true{{ end }}
{{- end }}

{{/* "true" where something else than config.endpoint may set the endpoint. */}}
{{- define "proflet.endpointIsElsewhere" -}}
{{- $names := list "PROFLET_ENDPOINT" "OTEL_EXPORTER_OTLP_ENDPOINT" "OTEL_EXPORTER_OTLP_PROFILES_ENDPOINT" }}
{{- range .Values.extraEnvs }}{{ if has .name $names }}true{{ end }}{{ end }}
{{- if or .Values.existingConfigMap .Values.extraEnvsFrom (contains "--endpoint" (toJson .Values.extraArgs)) }}true{{ end }}
{{- end }}

{{/* "true" where a volume of .at that the agent may write to is mounted at .path or above it; .reading: or may read. */}}
{{- define "proflet.isMounted" -}}
{{- $path := printf "%s/" (trimSuffix "/" .path) }}
{{- $reading := .reading }}
{{- $mounts := default list .at.Values.extraVolumeMounts }}
{{- if .at.Values.spool.type }}{{ $mounts = append $mounts (dict "mountPath" "/var/lib/proflet/spool") }}{{ end }}
{{- range $mounts }}
{{- if and (hasPrefix (printf "%s/" (trimSuffix "/" (toString .mountPath))) $path) (or $reading (not .readOnly)) }}true{{ end }}
{{- end }}
{{- end }}

{{/* What is wrong with the address behind http:// or https://, or empty. */}}
{{- define "proflet.addressError" -}}
{{- $authority := regexFind "^[^/?#]*" .address }}
{{- $path := trimPrefix $authority .address }}
{{- $port := regexFind ":[0-9]*$" $authority | trimPrefix ":" }}
{{- if contains "@" $authority -}}
has a user name in it: give credentials by headersSecret
{{- else if regexMatch "[?#]" $path -}}
has a query or fragment, which no OTLP endpoint takes
{{- else if not (regexMatch "^(\\[[0-9a-fA-F:.]+\\]|[0-9A-Za-z._-]+)(:[0-9]{1,5})?$" $authority) -}}
has no HOST or HOST:PORT behind the scheme
{{- else if and $port (or (lt (int $port) 1) (gt (int $port) 65535)) -}}
has a port that is not from 1 to 65535
{{- else if and (not (has $path (list "" "/"))) (eq .protocol "grpc") -}}
has a path, which gRPC does not take: take it out, or set config.protocol: http/protobuf
{{- end }}
{{- end }}

{{- define "proflet.validate.endpoint" -}}
{{- $at := .at }}
{{- $endpoint := default "" .config.endpoint }}
{{- $scheme := regexFind "^[A-Za-z][A-Za-z0-9+.-]*://" $endpoint | lower }}
{{- $address := regexReplaceAll "^([A-Za-z0-9+.-]*:)?/+" $endpoint "" }}
{{- $local := include "proflet.hasLocalCollector" $at }}
{{- $sameNode := "for a Collector on each node set endpoint: null and extraEnvs: [{name: PROFLET_ENDPOINT, value: \"http://$(K8S_NODE_IP):4317\"}]" }}
{{- $why := "" }}
{{- if not $endpoint }}
{{- if not (or $local (include "proflet.endpointIsElsewhere" $at)) }}
{{- fail (printf "config.endpoint: is not set, nor is PROFLET_ENDPOINT in extraEnvs, so that the agent would look for the Collector in its own pod: set it to the Collector's Service, http://NAME.NAMESPACE:4317; %s" $sameNode) }}
{{- end }}
{{- else if regexMatch "[\\s[:cntrl:]]" $endpoint }}
{{- $why = "has spaces or control characters in it" }}
{{- else if regexMatch "^(?i)unix:" $endpoint }}
{{- $path := regexReplaceAll "^(?i)unix:(//)?/*" $endpoint "/" }}
{{- if or (not (regexMatch "^(?i)unix:/" $endpoint)) (eq $path "/") (gt (len $path) 107) }}
{{- $why = "has no absolute path of at most 107 bytes behind unix:" }}
{{- else if not (include "proflet.isMounted" (dict "path" $path "reading" true "at" $at)) }}
{{- $why = printf "is a socket in the pod, where no volume has it: mount its folder, %s, by extraVolumes and extraVolumeMounts" (dir $path) }}
{{- end }}
{{- else if not $scheme }}
{{- $why = printf "has no scheme: write %q, or %q with TLS" (printf "http://%s" $address) (printf "https://%s" $address) }}
{{- else if not (has $scheme (list "http://" "https://")) }}
{{- $why = printf "has the scheme %q: accepted are http, https (both for gRPC, too) and unix:/PATH; write %q" (trimSuffix "://" $scheme) (printf "http://%s" $address) }}
{{- else }}
{{- $why = include "proflet.addressError" (dict "address" (regexReplaceAll "^[A-Za-z]+://" $endpoint "") "protocol" (default "grpc" .config.protocol)) }}
{{- if and (not $why) (not $local) (regexMatch "^(localhost|127\\.[0-9.]+|0\\.0\\.0\\.0|\\[::1?\\])(:|/|$)" $address) }}
{{- $why = printf "is the agent's own pod, where no Collector listens: name the Collector's Service, http://NAME.NAMESPACE:4317; %s" $sameNode }}
{{- else if and (not $why) $at.Values.tlsSecret.name (eq $scheme "http://") }}
{{- $why = printf "uses no TLS, but tlsSecret.name is set: write %q, or leave tlsSecret out" (printf "https://%s" $address) }}
{{- end }}
{{- end }}
{{- if $why }}{{ fail (printf "config.endpoint: %q %s" (regexReplaceAll "//[^/@]*@" $endpoint "//***@") $why) }}{{ end }}
{{- end }}

{{- define "proflet.validate.selectors" -}}
{{- $at := .at }}
{{- if not (include "proflet.metadata" $at) }}
{{- range $key, $selectors := default dict .config.select }}
{{- range $selectors }}
{{- if regexMatch "^(namespace|pod|label|container_name)=" . }}
{{- fail (printf "config.select.%s: %q needs the names of pods: set config.kubernetes.metadata: true, or select by cgroup=, container=, exe= or comm=" $key .) }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{/* README.md, "Memory", has the measurement behind the minimum. */}}
{{- define "proflet.validate.memory" -}}
{{- $least := "64Mi" }}
{{- $memory := default dict .config.memory }}
{{- $limit := dig "limits" "memory" "" (default dict .at.Values.resources) }}
{{- $total := int64 268435456 }}
{{- $called := "the default of config.memory.total, 256MiB" }}
{{- if $limit }}
{{- $bytes := include "proflet.bytes" $limit | int64 }}
{{- if not (kindIs "string" $limit) }}{{ $limit = $bytes }}{{ end }}
{{- if lt $bytes (include "proflet.bytes" $least | int64) }}
{{- fail (printf "resources.limits.memory: %v is less than the agent needs to start: set at least %s, and 128Mi on nodes with more than a few programs" $limit $least) }}
{{- end }}
{{- if and $memory.total (gt (include "proflet.bytes" $memory.total | int64) $bytes) }}
{{- fail (printf "config.memory.total: %q is over resources.limits.memory (%v), so that the kernel would kill the agent: raise the limit, or leave memory.total out, which then follows the limit" $memory.total $limit) }}
{{- end }}
{{- $followed := max 33554432 (sub $bytes (div $bytes 8)) | int64 }}
{{- if lt $followed $total }}
{{- $total = $followed }}
{{- $called = printf "what of resources.limits.memory (%v) is the agent's, seven eighths" $limit }}
{{- end }}
{{- end }}
{{- with $memory.total }}
{{- $total = include "proflet.bytes" . | int64 }}
{{- $called = printf "config.memory.total (%s)" . }}
{{- end }}
{{- range $key, $value := dict "memory.tables" $memory.tables "queue.memory" (dig "queue" "memory" "" .config) }}
{{- if and $value (gt (include "proflet.bytes" $value | int64) $total) }}
{{- fail (printf "config.%s: %q is over %s: lower it, or raise that" $key $value $called) }}
{{- end }}
{{- end }}
{{- end }}

{{- define "proflet.validate.spool" -}}
{{- $queue := default dict .config.queue }}
{{- $path := default "off" $queue.spool }}
{{- $spool := .at.Values.spool }}
{{- $mounted := "/var/lib/proflet/spool" }}
{{- if and $spool.type (not (hasPrefix (printf "%s/" $mounted) (printf "%s/" $path))) }}
{{- fail (printf "config.queue.spool: %q is not on the volume of spool.type: %s, which is at %s: leave config.queue.spool out, or set spool.type: \"\"" $path $spool.type $mounted) }}
{{- end }}
{{- if and (ne $path "off") (not (include "proflet.isMounted" (dict "path" $path "at" .at))) }}
{{- fail (printf "config.queue.spool: no volume is mounted at %q that the agent may write to: set spool.type: emptyDir or hostPath instead, or mount one by extraVolumes and extraVolumeMounts" $path) }}
{{- end }}
{{- if eq (default "" $spool.type) "emptyDir" }}
{{- $max := default "1GiB" $queue.spool_max }}
{{- $ephemeral := dig "limits" "ephemeral-storage" "" (default dict .at.Values.resources) }}
{{- range $key, $size := dict "spool.sizeLimit" $spool.sizeLimit "resources.limits.ephemeral-storage" $ephemeral }}
{{- if and $size (le (include "proflet.bytes" $size | int64) (include "proflet.bytes" $max | int64)) }}
{{- fail (printf "%s: %v is not larger than config.queue.spool_max (%s), so that the kubelet would evict the pod before the spool is full: raise it, or lower spool_max" $key $size $max) }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{- define "proflet.validate.nodes" -}}
{{- $arch := get (default dict .Values.nodeSelector) "kubernetes.io/arch" }}
{{- with .Values.image.architectures }}
{{- if and $arch (not (has $arch .)) }}
{{- fail (printf "nodeSelector: kubernetes.io/arch: %s is none of image.architectures (%s), so that no node would get a pod: correct one of them" $arch (join ", " .)) }}
{{- end }}
{{- end }}
{{- end }}

{{- define "proflet.validate.names" -}}
{{- if and (eq (default "" .Values.dnsPolicy) "None") (not (.Values.dnsConfig).nameservers) }}
{{- fail "dnsPolicy: None needs dnsConfig.nameservers" }}
{{- else if and .Values.hostNetwork (eq (default "" .Values.dnsPolicy) "ClusterFirst") }}
{{- fail "dnsPolicy: with hostNetwork, ClusterFirst finds no Service of the cluster: leave it out, or write ClusterFirstWithHostNet" }}
{{- end }}
{{- end }}

{{/* 0 and 0% admit no pod. */}}
{{- define "proflet.isZero" -}}
{{- if has (toString .) (list "" "0" "0%" "<nil>") }}true{{ end }}
{{- end }}

{{- define "proflet.validate.update" -}}
{{- $strategy := include "proflet.updateStrategy" . | fromYaml }}
{{- with $strategy.rollingUpdate }}
{{- $noSurge := include "proflet.isZero" .maxSurge }}
{{- $unavailable := dig "maxUnavailable" 1 . }}
{{- if and $noSurge (include "proflet.isZero" $unavailable) }}
{{- fail "updateStrategy.rollingUpdate: with maxSurge and maxUnavailable 0 no pod could be replaced: set one of them" }}
{{- else if not (or $noSurge (include "proflet.isZero" $unavailable)) }}
{{- fail "updateStrategy.rollingUpdate: maxSurge needs maxUnavailable: 0" }}
{{- else if not $noSurge }}
{{- with include "proflet.onlyOne" $ }}
{{- fail (printf "updateStrategy.rollingUpdate.maxSurge: a node cannot have two agents with %s: set maxSurge: 0 and maxUnavailable" .) }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
