package v1

import (
	"net/http"

	"github.com/sandkasten/sandkasten/internal/api"
	"github.com/sandkasten/sandkasten/internal/api/kit"
	"github.com/sandkasten/sandkasten/internal/api/v1/files"
	"github.com/sandkasten/sandkasten/internal/api/v1/images"
	"github.com/sandkasten/sandkasten/internal/api/v1/snapshots"
)

// snapshotRoutes are those of snapshots.
func (s *surface) snapshotRoutes() {
	kit.Route(s.kit, kit.Row{
		Pattern: "POST /v1/sessions/{id}/snapshots", Scope: api.Key, Class: api.Transfer, Resolve: s.resolveSession,
		Doc: kit.Doc{
			ID: "create-snapshot", Summary: "Save a session's files", Status: http.StatusCreated, Errors: []int{404, 409, 413, 415, 422, 501, 507},
			Description: "The session's programs stand still while its files are read, and go on. A paused session stays paused, and a stopped one stopped: none of its programs runs for that. A new session begins with the files if it is created with restore_snapshot_id. Owners, modes and times of files are kept; set-id bits, extended attributes, pipes, sockets and devices are not, and hard links become files of their own. What is under way when the session is destroyed ends with 409. An Idempotency-Key is as in the creation of a session.",
		},
	}, s.snapshots.Create)
	kit.Route(s.kit, kit.Row{
		Pattern: "GET /v1/snapshots", Scope: api.Key, Turn: true,
		Doc: kit.Doc{
			ID: "list-snapshots", Summary: "List snapshots", Errors: []int{501},
			Description: "The snapshots of this key, oldest first, and what its archives take.",
		},
	}, s.snapshots.List)
	kit.Route(s.kit, kit.Row{
		Pattern: "POST /v1/snapshots", Scope: api.Key, Class: api.Transfer, MaxBody: kit.NoLimit,
		Doc: kit.Doc{
			ID: "upload-snapshot", Summary: "Bring a snapshot from another host", Status: http.StatusCreated, Errors: []int{411, 413, 422, 501, 507},
			Answers:     map[int]kit.Answer{201: {Content: []kit.Media{kit.JSON[snapshots.Snapshot](nil)}}},
			Body:        &kit.Body{Means: atMost(s.manager.Snapshots.MaxArchive()), Content: []kit.Media{kit.Bytes(files.ArchiveTypes["tar"])}},
			Description: "The body is an archive as the download gives it, and comes with its Content-Length. All of it is checked before there is a snapshot: 422 if it is damaged, incomplete or hostile. Id and owner are new.",
		},
	}, s.snapshots.Upload)
	kit.Route(s.kit, kit.Row{
		Pattern: "GET /v1/snapshots/{id}", Scope: api.Key, Resolve: s.resolveSnapshot,
		Doc: kit.Doc{
			ID: "get-snapshot", Summary: "Get a snapshot", Errors: []int{404, 501},
		},
	}, s.snapshots.Get)
	kit.Route(s.kit, kit.Row{
		Pattern: "DELETE /v1/snapshots/{id}", Scope: api.Key, Resolve: s.resolveSnapshot,
		Doc: kit.Doc{
			ID: "delete-snapshot", Summary: "Remove a snapshot", Errors: []int{404, 501},
			Description: "Sessions that began with it keep their files.",
		},
	}, s.snapshots.Delete)
	kit.Route(s.kit, kit.Row{
		Pattern: "GET /v1/snapshots/{id}/download", Scope: api.Key, Class: api.Transfer, Resolve: s.resolveSnapshot,
		Doc: kit.Doc{
			ID: "download-snapshot", Summary: "Download a snapshot", Media: "application/x-tar", Errors: []int{404, 501},
			Answers:     map[int]kit.Answer{200: {Content: []kit.Media{kit.Bytes(files.ArchiveTypes["tar"])}}},
			Description: "A tar file of manifest.json, which has the hash of each of the others, workspace.tar.zst and, with scope sandbox, root.tar.zst, which is a layer of an OCI image. An answer that was cut short ends in a broken connection.",
		},
	}, s.snapshots.Download)
}

// adminsMakeImages is for those who may not.
const adminsMakeImages = "only admins make, pull and remove images, which belong to all. Ask one to make an image of your session (`sandkasten image from-session SESSION NAME`, POST /v1/images/commit), or keep what it has installed in a snapshot of scope sandbox, with which you begin others (POST /v1/sessions/ID/snapshots)"

// imageRoutes are those of images and of the jobs that make them.
func (s *surface) imageRoutes() {
	kit.Route(s.kit, kit.Row{
		Pattern: "GET /v1/images", Scope: api.Key, Turn: true,
		Doc: kit.Doc{
			ID: "list-images", Summary: "List images", Errors: []int{501},
			Description: "What sessions may be made of, newest first. The daemon's own key also sees the images that allowed_images leaves out.",
		},
	}, s.images.List)
	kit.Route(s.kit, kit.Row{
		Pattern: "GET /v1/images/{image}", Scope: api.Key,
		Doc: kit.Doc{
			ID: "get-image", Summary: "Get an image", Errors: []int{404, 501},
		},
	}, s.images.Get)
	kit.Route(s.kit, kit.Row{
		Pattern: "DELETE /v1/images/{image}", Scope: api.Key,
		Doc: kit.Doc{
			ID: "delete-image", Summary: "Remove an image", Errors: []int{403, 404, 409, 501},
			Description: "Takes the name away, and the image with its last name; a digest stands for the image with all its names. 409 while a session uses it. For admins, and of a user's own names for the user.",
		},
	}, s.images.Delete)
	kit.Route(s.kit, kit.Row{
		Pattern: "POST /v1/images/pull", Scope: api.Key,
		Doc: kit.Doc{
			ID: "pull-image", Summary: "Pull an image from a registry", Status: http.StatusAccepted, Errors: []int{403, 415, 429, 501},
			Description: "For admins, and users whom one lets (images of a user), whose images have names that begin with theirs and a slash. Starts a job that stores the linux image of a registry, with the credentials of docker login or podman login of the daemon's user. The job goes on when the client goes away. A request that is repeated while its job is under way gives that job.",
		},
	}, s.images.Pull)
	kit.Route(s.kit, kit.Row{
		Pattern: "POST /v1/images/build", Scope: api.Key, MaxBody: maxBuildBody,
		Doc: kit.Doc{
			ID: "build-image", Summary: "Build an image from a recipe", Status: http.StatusAccepted, Errors: []int{403, 404, 415, 429, 501},
			Description: "For admins, and users whom one lets. Starts a job that makes an image as the recipe says, which docs/images.md describes. Scripts of its packages and its steps run as root in a chroot of the daemon's host, with its network: a recipe must be trusted.",
		},
	}, s.images.Build)
	kit.Route(s.kit, kit.Row{
		Pattern: "POST /v1/images/commit", Scope: api.Key,
		Doc: kit.Doc{
			ID: "commit-image", Summary: "Make an image of a session or snapshot", Status: http.StatusAccepted, Errors: []int{403, 404, 409, 415, 429, 501},
			Description: "For admins, and of their own for users whom one lets pull. Starts a job that stores the image of the session with what it has changed of its root on top. What is in /workspace is no part of it. A session's programs stand still while its files are read.",
		},
	}, s.images.Commit)
	kit.Route(s.kit, kit.Row{
		Pattern: "POST /v1/images/import", Scope: api.Admin, Reserved: adminsMakeImages, Class: api.Transfer, MaxBody: kit.NoLimit,
		Doc: kit.Doc{
			ID: "import-image", Summary: "Make an image of an archive", Status: http.StatusCreated, Errors: []int{403, 413, 422, 501, 507},
			Answers: map[int]kit.Answer{201: {Content: []kit.Media{kit.JSON[images.Image](nil)}}},
			Body: &kit.Body{
				Means: "Plain, gzip or zstd. It needs no Content-Length.", Content: []kit.Media{kit.Bytes(files.ArchiveTypes["tar"])},
			},
			Description: "The body is the tar file of a whole root file system, which is unpacked as it arrives. If the client goes away before its end nothing is stored.",
		},
	}, s.images.Import)
	kit.Route(s.kit, kit.Row{
		Pattern: "GET /v1/image-jobs", Scope: api.Key, Turn: true,
		Doc: kit.Doc{
			ID: "list-image-jobs", Summary: "List jobs for images", Errors: []int{403, 501},
			Description: "Those that wait, run or have ended since the daemon's start, oldest first; of the ended ones the last hundred. Users who may make images see those of their own names.",
		},
	}, s.images.ListJobs)
	kit.Route(s.kit, kit.Row{
		Pattern: "GET /v1/image-jobs/{id}", Scope: api.Key,
		Doc: kit.Doc{
			ID: "get-image-job", Summary: "Get a job", Errors: []int{403, 404, 501},
		},
	}, s.images.GetJob)
	kit.Route(s.kit, kit.Row{
		Pattern: "GET /v1/image-jobs/{id}/events", Scope: api.Key, Class: api.Long, Listens: true,
		Doc: kit.Doc{
			ID: "image-job-events", Summary: "Follow a job", Media: "text/event-stream", Errors: []int{403, 404, 501},
			Example:     exampleJobEvents,
			Description: "Server-sent events: progress whenever the job is further, and at its end one done with the job. A stream that breaks is opened again, and begins with how far the job is then.",
		},
	}, s.images.JobEvents)
	kit.Route(s.kit, kit.Row{
		Pattern: "DELETE /v1/image-jobs/{id}", Scope: api.Key,
		Doc: kit.Doc{
			ID: "cancel-image-job", Summary: "Cancel a job", Errors: []int{403, 404, 501},
			Description: "Ends the job and answers when it has let go of all; layers that it has finished stay for the next try. To cancel what has ended is no error.",
		},
	}, s.images.CancelJob)
}
