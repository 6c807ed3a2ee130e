package orchestrator

import (
	"encoding/json"
	"fmt"
	"mime"
	"net/url"
	"strings"
	"unicode"

	"github.com/sandkasten/sandkasten/internal/orchestrator"
)

// The parameters of paths and queries.
type (
	none struct{}

	// SessionPath is exported because the library finds no embedded fields otherwise.
	SessionPath struct {
		ID string `path:"id" doc:"The session's UUID, or the id that it has in /v1." example:"6f1c1c9e-4b43-4d25-9f0e-2f6f4a0c0a11"`

		session orchestrator.Session // that findSession has found
	}

	ofSession struct{ SessionPath }

	ofEnd struct {
		SessionPath

		Force bool `query:"force" doc:"End it without saving its files, and remove those that an earlier end could not save. Without it, files that cannot be saved are kept."`
	}

	ofSnapshot struct {
		SessionPath

		Snapshot string `path:"snapshot" doc:"The snapshot's UUID." example:"0d9c3f2e-7c1b-4f0a-8a55-3f0f7f4a1b22"`
	}

	ofArtifact struct {
		Artifact  string `path:"artifact" doc:"The artifact's UUID." example:"4f0e8c1a-2d57-4b1e-9c55-0a6f3f7f4b22"`
		Expires   string `query:"expires" doc:"Of a link: when it ends."`
		Key       string `query:"key" doc:"Of a link: the id of the key or sign-in that it was made with, with which it ends."`
		Signature string `query:"signature" doc:"Of a link."`
	}

	ofKey struct {
		Key string `path:"key" doc:"The key's id." example:"cqz3fkq5yr7x2m4n6p8s9t1v3w"`
	}

	ofUpload struct {
		SessionPath

		Path string `query:"path" required:"true" minLength:"1" doc:"Where the file goes. Relative paths begin at /workspace." example:"/workspace/data.csv"`
	}

	ofDownload struct {
		SessionPath

		Path     string `query:"path" required:"true" minLength:"1" doc:"Of the file. Relative paths begin at /workspace." example:"/workspace/data.csv"`
		Filename string `query:"filename" doc:"Its name in Content-Disposition; the last part of path without it." example:"report.csv"`
	}
)

// path is where findSession puts what it has found.
func (p *SessionPath) path() *SessionPath { return p }

// The bodies of requests. The tags are what the document says and what is checked.
type (
	createFields struct {
		ID               string         `json:"id,omitempty" format:"uuid" doc:"Of a session that there is, or of a new one. Without it, a new one's is chosen." example:"6f1c1c9e-4b43-4d25-9f0e-2f6f4a0c0a11"`
		Mode             string         `json:"mode,omitempty" enum:"docker,native,k8s" doc:"Without it, orchestrator.default_mode of the configuration." example:"native"`
		Image            string         `json:"image,omitempty" example:"base"`
		CPU              string         `json:"cpu,omitempty" doc:"Cores, as 2, 0.5 or 500m." example:"500m"`
		Memory           string         `json:"memory,omitempty" doc:"As 512Mi or 2Gi." example:"512Mi"`
		EphemeralStorage string         `json:"ephemeral_storage,omitempty" doc:"As memory." example:"1Gi"`
		RestoreSnapshot  string         `json:"restore_snapshot_id,omitempty" format:"uuid" doc:"The snapshot that it begins with, if it is not ready; its latest without it." example:"0d9c3f2e-7c1b-4f0a-8a55-3f0f7f4a1b22"`
		IdleTimeout      int64          `json:"idle_timeout_sec,omitempty" minimum:"60" maximum:"315360000" doc:"At most max_lifetime_sec." example:"300"`
		MaxLifetime      int64          `json:"max_lifetime_sec,omitempty" minimum:"300" maximum:"315360000" example:"3600"`
		Metadata         map[string]any `json:"metadata,omitempty" doc:"The client's own." example:"{\"task\":42}"`
		ArtifactBaseURL  webAddress     `json:"artifact_base_url,omitempty" doc:"What download_url of this session's artifacts begins with; without it, orchestrator.artifact_base_url of the configuration." example:"https://files.example.net/artifacts"`
	}

	execFields struct {
		Command       commandLine `json:"command"`
		Cwd           string      `json:"cwd,omitempty" doc:"Without it, /workspace." example:"/workspace/src"`
		Timeout       int64       `json:"timeout_sec,omitempty" minimum:"1" maximum:"315360000" doc:"At most what the daemon allows, which is also what holds without it. Then the exit code is 124." example:"60"`
		CaptureStdout bool        `json:"capture_stdout,omitempty" default:"true"`
		CaptureStderr bool        `json:"capture_stderr,omitempty" default:"true"`
	}

	uploadFields struct {
		Path     string `json:"path" minLength:"1" doc:"Directories of it are made." example:"/workspace/main.py"`
		Content  string `json:"content" example:"print(1)\n"`
		Encoding string `json:"encoding,omitempty" enum:"utf-8,base64" doc:"Of content; without it, utf-8."`
	}

	snapshotFields struct {
		Label   string   `json:"label,omitempty" example:"before the upgrade"`
		Include []string `json:"include_paths,omitempty" nullable:"false" doc:"What is saved; without it, /workspace." example:"[\"/workspace/src\"]"`
		Exclude []string `json:"exclude_paths,omitempty" nullable:"false" example:"[\"node_modules\"]"`
	}

	loginFields struct {
		Username string `json:"username" minLength:"1" example:"alice"`
		Password string `json:"password" minLength:"1" example:"correct horse battery"`
	}

	registerFields struct {
		Username string `json:"username" minLength:"1" example:"alice"`
		Email    string `json:"email,omitempty" example:"alice@example.net"`
		Password string `json:"password" minLength:"8" example:"correct horse battery"`
	}

	keyFields struct {
		Name string `json:"name" minLength:"1" maxLength:"255" example:"laptop"`
	}

	exportFields struct {
		Path        string   `json:"path" minLength:"1" doc:"Relative paths begin at /workspace." example:"/workspace/report.pdf"`
		Filename    fileName `json:"filename,omitempty" doc:"Of the download; the last part of path without it. At most 255 bytes, no control characters." example:"report.pdf"`
		ContentType mimeType `json:"content_type,omitempty" doc:"A media type; without it, application/octet-stream. At most 255 bytes." example:"application/pdf"`
	}
)

func (loginFields) fromForm()    {}
func (registerFields) fromForm() {}
func (keyFields) fromForm()      {}

// Inputs with a body.
type (
	createInput struct{ Body *createFields }
	execInput   struct {
		SessionPath

		Body execFields
	}
	uploadInput struct {
		SessionPath

		Body uploadFields
	}
	snapshotInput struct {
		SessionPath

		Body *snapshotFields
	}
	exportInput struct {
		SessionPath

		Body exportFields
	}
	loginInput    struct{ Body loginFields }
	registerInput struct{ Body registerFields }
	keyInput      struct{ Body keyFields }
)

// read takes a line, or a list of words, which become one.
func (c *commandLine) read(raw json.RawMessage) (wrong string) {
	var line string
	if json.Unmarshal(raw, &line) == nil {
		*c = commandLine(line)
		return ""
	}
	var words []string
	if json.Unmarshal(raw, &words) != nil || len(words) == 0 {
		return "Must be a string or list of strings"
	}
	for i, word := range words {
		words[i] = "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
	}
	*c = commandLine(strings.Join(words, " "))
	return ""
}

// webAddress is where a path can be put behind, or "".
type webAddress string

func (a *webAddress) read(raw json.RawMessage) (wrong string) {
	text, ok := textOf(raw)
	if !ok {
		return "Not a valid string."
	}
	u, err := url.Parse(text)
	good := err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Hostname() != "" && u.User == nil
	if text != "" && (!good || strings.ContainsAny(text, "?#")) {
		return "Enter a valid URL."
	}
	*a = webAddress(text)
	return ""
}

const (
	maxFilename    = 255
	octets         = "application/octet-stream"
	maxContentType = 255
)

// fileName is the name of a file, or "".
type fileName string

func (n *fileName) read(raw json.RawMessage) (wrong string) {
	text, ok := textOf(raw)
	switch {
	case !ok:
		return "Not a valid string."
	case len(text) > maxFilename:
		return fmt.Sprintf("Ensure this field has no more than %d characters.", maxFilename)
	case strings.ContainsFunc(text, unicode.IsControl):
		return "Control characters are not allowed."
	}
	*n = fileName(text)
	return ""
}

// mimeType is a media type, or "".
type mimeType string

func (m *mimeType) read(raw json.RawMessage) (wrong string) {
	text, ok := textOf(raw)
	if !ok {
		return "Not a valid string."
	}
	if text == "" {
		return ""
	}
	kind, params, err := mime.ParseMediaType(text)
	if text = mime.FormatMediaType(kind, params); err != nil || text == "" || !strings.Contains(kind, "/") || len(text) > maxContentType {
		return "Must be a media type, as text/plain."
	}
	*m = mimeType(text)
	return ""
}
