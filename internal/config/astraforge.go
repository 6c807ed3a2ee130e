package config

import (
	"cmp"
	"slices"
	"strings"
)

// originalVariables are variables of the service whose API the orchestrator serves, and
// the keys that they set where neither the file nor a variable of ours does.
var originalVariables = []struct{ name, key string }{
	{"SANDBOX_IMAGE", "orchestrator.default_image"},
	{"SANDBOX_REAP_INTERVAL_SEC", "orchestrator.reaper_interval_seconds"},
	{"SANDBOX_ARTIFACT_BASE_URL", "orchestrator.artifact_base_url"},
	{"SANDBOX_SNAPSHOT_DIR", "snapshots.dir"},
}

// bucketVariables name a bucket, and are read if SANDBOX_S3_BUCKET is there.
var bucketVariables = []struct{ name, key string }{
	{"SANDBOX_S3_BUCKET", "snapshots.s3_bucket"},
	{"SANDBOX_S3_REGION", "snapshots.s3_region"},
	{"AWS_ACCESS_KEY_ID", "snapshots.s3_access_key"},
	{"AWS_SECRET_ACCESS_KEY", "snapshots.s3_secret_key"},
	{"AWS_SESSION_TOKEN", "snapshots.s3_session_token"},
}

// astraforge reads the variables of the original, and returns what the log is to say
// of those that have no effect here. An empty variable counts as not set.
func (l *loader) astraforge(environ []string) (remarks []string) {
	given := map[string]string{}
	for _, pair := range environ {
		if name, value, _ := strings.Cut(pair, "="); value != "" {
			given[name] = value
		}
	}
	for _, v := range originalVariables {
		l.original(v.key, v.name, given[v.name])
	}
	settings, remarks := originalDockerSettings(func(name string) string { return given[name] })
	for _, s := range settings {
		l.original(s.key, s.variable, s.value)
	}
	l.originalBucket(given)
	return append(remarks, originalRemarks(given)...)
}

// original sets a key from a variable of the original.
func (l *loader) original(key, name, raw string) {
	if _, written := l.set[key]; written || raw == "" {
		return
	}
	l.set[key] = name
	o := l.options[key]
	n, ok := envNode(o.value, raw)
	if !ok || !o.value.take(l, o, name, n) {
		l.wrong(name, key, "%swrite %s", o.got(n), o.value.want)
	}
}

// originalBucket has snapshots kept in the bucket that the variables name, unless our
// own configuration says where they are kept.
func (l *loader) originalBucket(given map[string]string) {
	if given["SANDBOX_S3_BUCKET"] == "" {
		return
	}
	if _, written := l.set["snapshots.store"]; !written {
		l.original("snapshots.store", "SANDBOX_S3_BUCKET", "s3")
	}
	for _, v := range bucketVariables {
		l.original(v.key, v.name, given[v.name])
	}
	l.original("snapshots.s3_endpoint", "SANDBOX_S3_ENDPOINT_URL", originalEndpoint(given))
}

// originalEndpoint is the server of the bucket: Amazon's if none is named. Whether the
// connection is encrypted the address says, or a variable.
func originalEndpoint(given map[string]string) string {
	address := given["SANDBOX_S3_ENDPOINT_URL"]
	if address == "" {
		address = "s3." + cmp.Or(given["SANDBOX_S3_REGION"], "us-east-1") + ".amazonaws.com"
	}
	if strings.Contains(address, "://") {
		return address
	}
	if slices.Contains([]string{"0", "false", "no", "off"}, strings.ToLower(given["SANDBOX_S3_USE_SSL"])) {
		return "http://" + address
	}
	return "https://" + address
}

// originalRemarks says of variables of the original that they have no effect.
func originalRemarks(given map[string]string) (remarks []string) {
	if given["ASTRAFORGE_EXECUTE_COMMANDS"] == "0" {
		remarks = append(remarks, "ASTRAFORGE_EXECUTE_COMMANDS=0 has no effect: this daemon runs the commands that it answers for")
	}
	for name := range given {
		if strings.HasPrefix(name, "CODEX_") {
			return append(remarks, "variables that begin with CODEX_ have no effect: this daemon makes sandboxes and runs no agent; orchestrator.default_image sets the image")
		}
	}
	return remarks
}
