package sandkasten

import (
	"context"
	"io"
	"net/http"
	"time"
)

// Image is what a session can be made of.
type Image struct {
	Digest     string    `json:"digest"`
	Names      []string  `json:"names"`      // empty if newer images took them
	Allowed    bool      `json:"allowed"`    // sessions may use it
	SizeBytes  int64     `json:"size_bytes"` // of its files
	Files      int64     `json:"files"`
	Layers     []string  `json:"layers"` // digests, top first
	Env        []string  `json:"env"`    // NAME=value
	WorkingDir string    `json:"working_dir,omitempty"`
	User       string    `json:"user,omitempty"`
	Shell      string    `json:"shell"`
	Source     string    `json:"source,omitempty"` // where it came from, for people
	Recipe     string    `json:"recipe,omitempty"` // digest of the recipe that made it
	Warnings   []string  `json:"warnings,omitempty"`
	CreatedAt  time.Time `json:"created_at"`

	// NetworkGroups are the hosts that its package clients download from, by group
	// ("pip", "npm"): what @pip in a policy means. Nil is not known yet.
	NetworkGroups map[string][]string `json:"network_groups,omitzero"`
}

// ImageJob is work on an image that the daemon does by itself.
type ImageJob struct {
	ID        string        `json:"id"`
	Kind      string        `json:"kind"` // pull, build or commit
	Name      string        `json:"name"` // of the image
	Status    string        `json:"status"`
	Progress  ImageProgress `json:"progress"`
	Image     *Image        `json:"image,omitempty"` // when it is done
	Error     string        `json:"error,omitempty"` // why it failed
	Code      string        `json:"code,omitempty"`  // the code of that error
	CreatedAt time.Time     `json:"created_at"`
	EndedAt   *time.Time    `json:"ended_at,omitempty"`
}

// The values of ImageJob.Status: the first two go on, the others are final.
const (
	JobQueued   = "queued"
	JobRunning  = "running"
	JobDone     = "done"
	JobFailed   = "failed"
	JobCanceled = "canceled"
)

// ImageProgress is how far an ImageJob is.
type ImageProgress struct {
	Phase      string `json:"phase"` // for people
	DoneBytes  int64  `json:"done_bytes"`
	TotalBytes int64  `json:"total_bytes"` // 0 if nobody knows
}

// ListImages returns the images that the key's sessions may use, newest first.
func (c *Client) ListImages(ctx context.Context) ([]Image, error) {
	var answer struct {
		Images []Image `json:"images"`
	}
	err := c.call(ctx, get("/v1/images"), &answer)
	return answer.Images, err
}

// GetImage returns the image of a name or digest.
func (c *Client) GetImage(ctx context.Context, name string) (Image, error) {
	var image Image
	err := c.call(ctx, get("/v1/images/"+segment(name)), &image)
	return image, err
}

// DeleteImage takes an image's name away, and the image with its last name. Only
// the daemon's own key may do this, and what else changes images.
func (c *Client) DeleteImage(ctx context.Context, name string) error {
	return c.call(ctx, remove("/v1/images/"+segment(name)), nil)
}

// PullImageOptions is what a pulled image may be given.
type PullImageOptions struct {
	Name     string `json:"name,omitempty"`     // the reference without it
	Insecure bool   `json:"insecure,omitempty"` // allow plain HTTP to a registry on another host
}

// PullImage has the daemon store the image of a registry. The job goes on by
// itself: WaitImageJob follows it.
func (c *Client) PullImage(ctx context.Context, ref string, o *PullImageOptions) (ImageJob, error) {
	body := struct {
		Ref string `json:"ref"`
		PullImageOptions
	}{ref, value(o)}
	return c.startImageJob(ctx, "/v1/images/pull", body)
}

// BuildImageOptions is what an image is built of.
type BuildImageOptions struct {
	Recipe   string `json:"recipe,omitempty"`    // its text; empty is the daemon's recipe of that name
	IfAbsent bool   `json:"if_absent,omitempty"` // do nothing if the recipe has made the image already
	NoCache  bool   `json:"no_cache,omitempty"`  // make each step anew

	Files []RecipeFile `json:"files,omitempty"` // what the recipe's copy may take
}

// RecipeFile is a file beside a recipe.
type RecipeFile struct {
	Path    string `json:"path"` // below the recipe's directory
	Content []byte `json:"content_base64"`
}

// BuildImage has the daemon make an image as a recipe says.
func (c *Client) BuildImage(ctx context.Context, name string, o *BuildImageOptions) (ImageJob, error) {
	body := struct {
		Name string `json:"name"`
		BuildImageOptions
	}{name, value(o)}
	return c.startImageJob(ctx, "/v1/images/build", body)
}

// CommitImageOptions names what an image is made of: one of both.
type CommitImageOptions struct {
	SessionID  string `json:"session_id,omitempty"`
	SnapshotID string `json:"snapshot_id,omitempty"` // of scope sandbox
}

// CommitImage has the daemon make an image of a session's image and what was
// changed of its root.
func (c *Client) CommitImage(ctx context.Context, name string, o *CommitImageOptions) (ImageJob, error) {
	body := struct {
		Name string `json:"name"`
		CommitImageOptions
	}{name, value(o)}
	return c.startImageJob(ctx, "/v1/images/commit", body)
}

// startImageJob may send its request again: the daemon takes the same one for the
// job that is under way.
func (c *Client) startImageJob(ctx context.Context, path string, body any) (ImageJob, error) {
	var job ImageJob
	err := c.call(ctx, postSame(path, body), &job)
	return job, err
}

// ImportImageOptions is what an imported image may be given.
type ImportImageOptions struct {
	Source string // where it came from, for people
	Size   int64  // of the archive, if it is neither a buffer nor can seek; -1 is unknown
}

// ImportImage makes an image of the tar file of a whole root file system: plain,
// gzip or zstd.
func (c *Client) ImportImage(ctx context.Context, name string, archive io.Reader, o *ImportImageOptions) (Image, error) {
	options := value(o)
	body, err := newSource("application/x-tar", archive, options.Size)
	if err != nil {
		return Image{}, err
	}
	r := request{method: http.MethodPost, path: "/v1/images/import", body: body}
	r.set("name", name)
	r.set("source", options.Source)
	var image Image
	err = c.call(ctx, r, &image)
	return image, err
}

// ListImageJobs returns the jobs that the daemon knows, oldest first.
func (c *Client) ListImageJobs(ctx context.Context) ([]ImageJob, error) {
	var answer struct {
		Jobs []ImageJob `json:"jobs"`
	}
	err := c.call(ctx, get("/v1/image-jobs"), &answer)
	return answer.Jobs, err
}

// GetImageJob returns a job as it is.
func (c *Client) GetImageJob(ctx context.Context, id string) (ImageJob, error) {
	var job ImageJob
	err := c.call(ctx, get(imageJobPath(id)), &job)
	return job, err
}

// CancelImageJob ends a job and returns it as it is then.
func (c *Client) CancelImageJob(ctx context.Context, id string) (ImageJob, error) {
	var job ImageJob
	err := c.call(ctx, remove(imageJobPath(id)), &job)
	return job, err
}

// WaitImageJob follows a job to its end and returns it, also one that failed or
// was canceled: its Status says which. report, which may be nil, is told whenever
// the job is further. A connection that breaks is made anew. To leave ends nothing.
func (c *Client) WaitImageJob(ctx context.Context, id string, report func(ImageProgress)) (ImageJob, error) {
	p := patience{client: c}
	for {
		var broken error
		for e, err := range c.events(ctx, get(imageJobPath(id)+"/events")) {
			if err != nil {
				broken = err
				break
			}
			if e.name == "done" {
				var job ImageJob
				err := e.decode(&job)
				return job, err
			}
			var now ImageProgress
			if err := e.decode(&now); err != nil {
				return ImageJob{}, err
			}
			if p.progress(); report != nil {
				report(now)
			}
		}
		if err := p.resume(ctx, broken); err != nil {
			return ImageJob{}, err
		}
	}
}

func imageJobPath(id string) string { return "/v1/image-jobs/" + segment(id) }
