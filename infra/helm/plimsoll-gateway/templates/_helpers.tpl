{{- define "gateway.labels" -}}
{{ include "gateway.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- define "gateway.selector" -}}
app.kubernetes.io/name: plimsoll-gateway
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- /* Kind of the catalog: directory or database. Fails on settings that cannot work on Kubernetes. */ -}}
{{- define "gateway.catalog" -}}
{{- $settings := fromToml .Values.settings -}}
{{- if hasKey $settings "Error" }}{{ fail (printf "settings: %s" $settings.Error) }}{{ end -}}
{{- $url := dig "catalog" "url" "" $settings -}}
{{- if hasPrefix "dir:/data/" $url -}}
directory
{{- else if or (hasPrefix "postgres://" $url) (hasPrefix "postgresql://" $url) -}}
{{- range $name, $tier := (dig "tier" dict $settings) -}}
{{- if hasPrefix "file:" (dig "url" "" $tier) -}}
{{- fail (printf "settings: tier %s: several pods cannot share a directory; use a bucket" $name) -}}
{{- end -}}
{{- end -}}
database
{{- else -}}
{{- fail (printf "settings: catalog.url %q: use dir:/data/NAME or postgres://" $url) -}}
{{- end -}}
{{- end }}

{{- define "gateway.image" -}}
{{- $repository := required "image.repository is missing; specify an image of plimsoll-gateway" .Values.image.repository -}}
{{- if .Values.image.digest -}}
{{ $repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ $repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end }}

{{- define "gateway.serviceAccount" -}}
{{ .Values.serviceAccount.name | default .Release.Name }}
{{- end }}

{{- /* The pod of both kinds of workloads. */ -}}
{{- define "gateway.pod" -}}
metadata:
  labels: {{- include "gateway.labels" . | nindent 4 }}
  annotations:
    # Other settings start other pods.
    checksum/settings: {{ sha256sum .Values.settings }}
    {{- with .Values.podAnnotations }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  serviceAccountName: {{ include "gateway.serviceAccount" . | quote }}
  automountServiceAccountToken: false
  enableServiceLinks: false
  # Open requests end within two seconds; then the index is written.
  terminationGracePeriodSeconds: {{ add 60 (int .Values.drainSeconds) }}
  {{- with .Values.imagePullSecrets }}
  imagePullSecrets: {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.nodeSelector }}
  nodeSelector: {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.tolerations }}
  tolerations: {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.priorityClassName }}
  priorityClassName: {{ . | quote }}
  {{- end }}
  {{- if eq (include "gateway.catalog" .) "database" }}
  topologySpreadConstraints:
    - maxSkew: 1
      topologyKey: kubernetes.io/hostname
      whenUnsatisfiable: ScheduleAnyway
      labelSelector:
        matchLabels: {{- include "gateway.selector" . | nindent 10 }}
  {{- end }}
  securityContext:
    runAsNonRoot: true
    runAsUser: 65532
    runAsGroup: 65532
    fsGroup: 65532
    fsGroupChangePolicy: OnRootMismatch
    seccompProfile:
      type: RuntimeDefault
  containers:
    - name: gateway
      image: {{ include "gateway.image" . | quote }}
      imagePullPolicy: {{ .Values.image.pullPolicy }}
      args:
        - run
        - /etc/plimsoll/gateway.toml
        - --listen=0.0.0.0:9000
        - --metrics-listen=0.0.0.0:9100
        # Only `kubectl port-forward` reaches it.
        - --admin-listen=127.0.0.1:9101
        - --credentials=/etc/plimsoll-accounts/accounts.toml
        {{- if .Values.tlsSecret }}
        - --tls-cert=/etc/plimsoll-tls/tls.crt
        - --tls-key=/etc/plimsoll-tls/tls.key
        {{- end }}
        {{- range .Values.arguments }}
        - {{ . | quote }}
        {{- end }}
      {{- with .Values.environmentSecrets }}
      envFrom:
        {{- range . }}
        - secretRef:
            name: {{ . | quote }}
        {{- end }}
      {{- end }}
      {{- if .Values.authorities.configMap }}
      env:
        - name: AWS_CA_BUNDLE
          value: /etc/plimsoll-authorities/{{ .Values.authorities.key }}
      {{- end }}
      ports:
        - name: s3
          containerPort: 9000
        - name: metrics
          containerPort: 9100
      # After a crash, the start reads the end of the log before it listens.
      startupProbe:
        httpGet: {path: /healthz, port: metrics}
        periodSeconds: 5
        failureThreshold: 120
      livenessProbe:
        httpGet: {path: /healthz, port: metrics}
        periodSeconds: 10
        timeoutSeconds: 5
        failureThreshold: 6
      readinessProbe:
        httpGet: {path: /readyz, port: metrics}
        periodSeconds: 5
        timeoutSeconds: 5
        failureThreshold: 2
      lifecycle:
        preStop:
          sleep:
            seconds: {{ int .Values.drainSeconds }}
      resources: {{- toYaml .Values.resources | nindent 8 }}
      securityContext:
        allowPrivilegeEscalation: false
        readOnlyRootFilesystem: true
        capabilities:
          drop: [ALL]
      volumeMounts:
        - {name: settings, mountPath: /etc/plimsoll, readOnly: true}
        - {name: accounts, mountPath: /etc/plimsoll-accounts, readOnly: true}
        {{- if .Values.tlsSecret }}
        - {name: tls, mountPath: /etc/plimsoll-tls, readOnly: true}
        {{- end }}
        {{- if .Values.authorities.configMap }}
        - {name: authorities, mountPath: /etc/plimsoll-authorities, readOnly: true}
        {{- end }}
        {{- if .Values.cacheSize }}
        - {name: cache, mountPath: /cache}
        {{- end }}
        {{- if eq (include "gateway.catalog" .) "directory" }}
        - {name: data, mountPath: /data}
        {{- end }}
        {{- if .Values.backupClaim }}
        - {name: backup, mountPath: /backup}
        {{- end }}
  volumes:
    - name: settings
      configMap:
        name: {{ .Release.Name }}
    - name: accounts
      secret:
        secretName: {{ required "accountsSecret is missing; create a Secret with the key accounts.toml" .Values.accountsSecret | quote }}
        defaultMode: 0440
    {{- with .Values.tlsSecret }}
    - name: tls
      secret:
        secretName: {{ . | quote }}
        defaultMode: 0440
    {{- end }}
    {{- with .Values.authorities.configMap }}
    - name: authorities
      configMap:
        name: {{ . | quote }}
    {{- end }}
    {{- with .Values.cacheSize }}
    - name: cache
      emptyDir:
        sizeLimit: {{ . | quote }}
    {{- end }}
    {{- with .Values.backupClaim }}
    - name: backup
      persistentVolumeClaim:
        claimName: {{ . | quote }}
    {{- end }}
    {{- if and (eq (include "gateway.catalog" .) "directory") .Values.persistence.existingClaim }}
    - name: data
      persistentVolumeClaim:
        claimName: {{ .Values.persistence.existingClaim | quote }}
    {{- end }}
{{- end }}
