{{/* What the agent's container and the one of `helm test` have in common: rights, environment, files. */}}
{{- define "proflet.container" -}}
image: {{ include "proflet.image" . | quote }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
securityContext:
  {{- toYaml .Values.securityContext | nindent 2 }}
env:
  - name: PROFLET_CONFIG
    value: /etc/proflet/config/config.yaml
  - name: K8S_NODE_NAME
    valueFrom:
      fieldRef:
        fieldPath: spec.nodeName
  - name: K8S_NODE_IP
    valueFrom:
      fieldRef:
        fieldPath: status.hostIP
  {{- if .Values.resourceAttributes }}
  - name: OTEL_RESOURCE_ATTRIBUTES
    value: {{ include "proflet.resourceAttributes" . | quote }}
  {{- end }}
  {{- with .Values.extraEnvs }}
  {{- include "proflet.yaml" (dict "value" . "at" $) | nindent 2 }}
  {{- end }}
{{- with .Values.extraEnvsFrom }}
envFrom:
  {{- include "proflet.yaml" (dict "value" . "at" $) | nindent 2 }}
{{- end }}
volumeMounts:
  - name: config
    mountPath: /etc/proflet/config
    readOnly: true
  {{- if .Values.headersSecret.name }}
  - name: headers
    mountPath: /etc/proflet/headers
    readOnly: true
  {{- end }}
  {{- if .Values.tlsSecret.name }}
  - name: tls
    mountPath: /etc/proflet/tls
    readOnly: true
  {{- end }}
  {{- if .Values.listenTokenSecret.name }}
  - name: listen
    mountPath: /etc/proflet/listen
    readOnly: true
  {{- end }}
  {{- if .Values.spool.type }}
  - name: spool
    mountPath: /var/lib/proflet/spool
  {{- end }}
  {{- with .Values.extraVolumeMounts }}
  {{- include "proflet.yaml" (dict "value" . "at" $) | nindent 2 }}
  {{- end }}
{{- end }}

{{/* NAME=VALUE,NAME=VALUE as W3C baggage: percent-encoded, which also keeps the kubelet from expanding $(...). */}}
{{- define "proflet.resourceAttributes" -}}
{{- $pairs := list }}
{{- range $name, $value := .Values.resourceAttributes }}
{{- $pairs = append $pairs (printf "%s=%s" $name (tpl (toString $value) $ | urlquery | replace "+" "%20")) }}
{{- end }}
{{- join "," $pairs }}
{{- end }}

{{/* The pod around it. */}}
{{- define "proflet.pod" -}}
serviceAccountName: {{ include "proflet.serviceAccountName" . }}
automountServiceAccountToken: {{ if include "proflet.metadata" . }}true{{ else }}false{{ end }}
hostPID: true
{{- if .Values.hostNetwork }}
hostNetwork: true
{{- end }}
dnsPolicy: {{ default (ternary "ClusterFirstWithHostNet" "ClusterFirst" .Values.hostNetwork) .Values.dnsPolicy }}
{{- with .Values.dnsConfig }}
dnsConfig:
  {{- include "proflet.yaml" (dict "value" . "at" $) | nindent 2 }}
{{- end }}
{{- with .Values.hostAliases }}
hostAliases:
  {{- include "proflet.yaml" (dict "value" . "at" $) | nindent 2 }}
{{- end }}
enableServiceLinks: false
{{- with include "proflet.pullSecrets" . }}
imagePullSecrets:
  {{- . | nindent 2 }}
{{- end }}
{{- with .Values.podSecurityContext }}
securityContext:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.priorityClassName }}
priorityClassName: {{ tpl . $ }}
{{- end }}
{{- with .Values.runtimeClassName }}
runtimeClassName: {{ . }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector:
  {{- include "proflet.yaml" (dict "value" . "at" $) | nindent 2 }}
{{- end }}
{{- with include "proflet.affinity" . }}
affinity:
  {{- . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
volumes:
  - name: config
    configMap:
      name: {{ include "proflet.configMapName" . }}
  {{- with .Values.headersSecret }}
  {{- if .name }}
  - name: headers
    secret:
      secretName: {{ tpl .name $ }}
      defaultMode: 0400
      items:
        - key: {{ .key }}
          path: headers
  {{- end }}
  {{- end }}
  {{- with .Values.tlsSecret }}
  {{- if .name }}
  - name: tls
    secret:
      secretName: {{ tpl .name $ }}
      defaultMode: 0400
      items:
        {{- if .caKey }}
        - key: {{ .caKey }}
          path: ca.crt
        {{- end }}
        {{- if .certKey }}
        - key: {{ .certKey }}
          path: tls.crt
        {{- end }}
        {{- if .keyKey }}
        - key: {{ .keyKey }}
          path: tls.key
        {{- end }}
  {{- end }}
  {{- end }}
  {{- with .Values.listenTokenSecret }}
  {{- if .name }}
  - name: listen
    secret:
      secretName: {{ tpl .name $ }}
      defaultMode: 0400
      items:
        - key: {{ .key }}
          path: token
  {{- end }}
  {{- end }}
  {{- if eq .Values.spool.type "emptyDir" }}
  - name: spool
    emptyDir:
      sizeLimit: {{ .Values.spool.sizeLimit }}
  {{- else if eq .Values.spool.type "hostPath" }}
  - name: spool
    hostPath:
      path: {{ .Values.spool.hostPath }}
      type: DirectoryOrCreate
  {{- end }}
  {{- with .Values.extraVolumes }}
  {{- include "proflet.yaml" (dict "value" . "at" $) | nindent 2 }}
  {{- end }}
{{- end }}
