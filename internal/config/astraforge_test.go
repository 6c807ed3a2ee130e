package config

import (
	"strings"
	"testing"
	"time"
)

const enabledFile = "orchestrator: {enabled: true}\n"

func TestOriginalVariables(t *testing.T) {
	t.Parallel()
	environ := []string{
		"SANDBOX_IMAGE=python", "SANDBOX_REAP_INTERVAL_SEC=7", "SANDBOX_ARTIFACT_BASE_URL=https://cdn.example.net/x/", "SANDBOX_SNAPSHOT_DIR=/srv/archives",
		"SANDBOX_S3_BUCKET=boxes", "SANDBOX_S3_ENDPOINT_URL=http://s3.example.net:9000", "SANDBOX_S3_REGION=eu-1",
		"AWS_ACCESS_KEY_ID=id", "AWS_SECRET_ACCESS_KEY=worth-much", "AWS_SESSION_TOKEN=for-a-while",
	}
	c, problems := parse([]byte(enabledFile), environ, drivers)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	want := S3{Endpoint: "http://s3.example.net:9000", Region: "eu-1", Bucket: "boxes", PathStyle: true, AccessKey: "id", SecretKey: "worth-much", Token: "for-a-while"}
	if o := c.Orchestrator; c.Snapshots.S3 != want || c.Snapshots.Store != "s3" || c.Snapshots.Dir != "/srv/archives" || o.DefaultImage != "python" ||
		o.ReaperInterval != 7*time.Second || o.ArtifactBaseURL != "https://cdn.example.net/x" {
		t.Errorf("%+v %+v", c.Snapshots, o)
	}

	// What is ours comes first, and without the orchestrator nothing is read.
	file := "orchestrator: {enabled: true, default_image: ours}\nsnapshots: {store: dir, dir: /ours}\n"
	c, problems = parse([]byte(file), append(environ, "SANDKASTEN_ORCHESTRATOR__REAPER_INTERVAL_SECONDS=3"), drivers)
	if len(problems) > 0 || c.Orchestrator.DefaultImage != "ours" || c.Snapshots.Dir != "/ours" || c.Snapshots.Store != "dir" || c.Orchestrator.ReaperInterval != 3*time.Second {
		t.Errorf("%v %+v %+v", problems, c.Snapshots, c.Orchestrator)
	}
	c, problems = parse(nil, append(environ, "CODEX_HOME=x"), drivers)
	if len(problems) > 0 || c.Orchestrator.DefaultImage != "" || c.Snapshots.Store != "dir" || c.Remarks != nil {
		t.Errorf("%v %+v", problems, c)
	}
}

func TestOriginalEndpoint(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		given map[string]string
		want  string
	}{
		"none":                 {nil, "https://s3.us-east-1.amazonaws.com"},
		"none, a region":       {map[string]string{"SANDBOX_S3_REGION": "eu-1"}, "https://s3.eu-1.amazonaws.com"},
		"an address":           {map[string]string{"SANDBOX_S3_ENDPOINT_URL": "http://s3.example.net"}, "http://s3.example.net"},
		"an address wins":      {map[string]string{"SANDBOX_S3_ENDPOINT_URL": "https://s3.example.net", "SANDBOX_S3_USE_SSL": "0"}, "https://s3.example.net"},
		"a host":               {map[string]string{"SANDBOX_S3_ENDPOINT_URL": "s3.example.net:9000"}, "https://s3.example.net:9000"},
		"a host, in the clear": {map[string]string{"SANDBOX_S3_ENDPOINT_URL": "s3.example.net:9000", "SANDBOX_S3_USE_SSL": "False"}, "http://s3.example.net:9000"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := originalEndpoint(test.given); got != test.want {
				t.Errorf("%s, want %s", got, test.want)
			}
		})
	}
}

// A mistake names the variable, and not the secret in it.
func TestOriginalMistakes(t *testing.T) {
	t.Parallel()
	_, problems := parse([]byte(enabledFile), []string{"SANDBOX_REAP_INTERVAL_SEC=soon", "SANDBOX_S3_BUCKET=boxes", "AWS_SECRET_ACCESS_KEY=worth-much"}, drivers)
	var texts []string
	for _, p := range problems {
		texts = append(texts, p.String())
	}
	got := strings.Join(texts, "\n")
	want := "SANDBOX_REAP_INTERVAL_SEC: orchestrator.reaper_interval_seconds: is \"soon\": write a whole number of seconds from 1 to 3600\n" +
		"SANDBOX_S3_BUCKET: snapshots.store: is s3, which needs snapshots.s3_access_key: set it"
	if got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
}

func TestOriginalRemarks(t *testing.T) {
	t.Parallel()
	c, problems := parse([]byte(enabledFile), []string{"ASTRAFORGE_EXECUTE_COMMANDS=0", "CODEX_A=1", "CODEX_B=2", "CODEX_EMPTY="}, drivers)
	if len(problems) > 0 || len(c.Remarks) != 2 || !strings.HasPrefix(c.Remarks[0], "ASTRAFORGE_EXECUTE_COMMANDS=0 ") || !strings.HasPrefix(c.Remarks[1], "variables that begin with CODEX_ ") {
		t.Errorf("%q %v", c.Remarks, problems)
	}
	if c, _ := parse([]byte(enabledFile), []string{"ASTRAFORGE_EXECUTE_COMMANDS=1"}, drivers); c.Remarks != nil {
		t.Errorf("%q", c.Remarks)
	}
}

func TestLinksOfTheStoreNeedABucket(t *testing.T) {
	t.Parallel()
	s3 := "snapshots: {store: s3, s3_endpoint: https://s3.example.net, s3_bucket: boxes, s3_access_key: id, s3_secret_key: x"
	for file, wrong := range map[string]bool{
		"orchestrator: {enabled: true, artifact_links: store}\n":                                             true,
		"orchestrator: {enabled: true, artifact_links: store}\n" + s3 + "}\n":                                false,
		"orchestrator: {enabled: true, artifact_links: store}\n" + s3 + ", encryption_key_file: /etc/key}\n": true,
	} {
		if _, problems := parse([]byte(file), nil, drivers); (len(problems) > 0) != wrong {
			t.Errorf("%s: %v", file, problems)
		}
	}
}
