package v1

import (
	"net/http"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/sandkasten/sandkasten/internal/api"
	"github.com/sandkasten/sandkasten/internal/api/kit"
	"github.com/sandkasten/sandkasten/internal/api/v1/files"
	"github.com/sandkasten/sandkasten/internal/auth"
)

// filesOfSessions are the routes of the files of sessions.
func (s *surface) filesOfSessions() {
	s.fileRoutes(fileRoutes{path: "/v1/sessions/{id}", handlers: s.files, resolve: s.resolveSession})
	kit.Route(s.kit, kit.Row{
		Pattern: "GET /v1/sessions/{id}/fs/watch", Scope: api.Key, Class: api.Long, Listens: true, Resolve: s.resolveSession,
		Doc: kit.Doc{
			ID: "watch-files", Summary: "Follow the changes in a directory", Media: "text/event-stream", Errors: []int{403, 404, 409, 422},
			Example:     exampleWatch,
			Description: "Server-sent events. First ready: all later changes are told. Then create, write, remove, rename and chmod with the path, relative to the directory, and overflow where changes were too many and some are lost: look again. At the end of the session, error with the fields of an error. To watch is not activity.",
		},
	}, s.files.Watch)
}

// workspaceRoutes are those of workspaces, and of their files.
func (s *surface) workspaceRoutes() {
	kit.Route(s.kit, kit.Row{
		Pattern: "POST /v1/workspaces", Scope: api.Key,
		Doc: kit.Doc{
			ID: "create-workspace", Summary: "Create a workspace", Status: http.StatusCreated, Errors: []int{409, 415, 501, 507},
			Description: "An empty directory that outlives sessions. A session has it at /workspace if it was created with workspace_id; several may have it at the same time. 409 if this key has one of that id.",
		},
	}, s.createWorkspace)
	kit.Route(s.kit, kit.Row{
		Pattern: "GET /v1/workspaces", Scope: api.Key, Turn: true,
		Doc: kit.Doc{
			ID: "list-workspaces", Summary: "List workspaces", Errors: []int{501},
			Description: "The workspaces of this key, oldest first.",
		},
	}, s.listWorkspaces)
	kit.Route(s.kit, kit.Row{
		Pattern: "GET /v1/workspaces/{id}", Scope: api.Key,
		Doc: kit.Doc{
			ID: "get-workspace", Summary: "Get a workspace", Errors: []int{404, 501},
			Description: "With what it takes now.",
		},
	}, s.getWorkspace)
	kit.Route(s.kit, kit.Row{
		Pattern: "DELETE /v1/workspaces/{id}", Scope: api.Key,
		Doc: kit.Doc{
			ID: "delete-workspace", Summary: "Delete a workspace", Errors: []int{404, 409, 501},
			Description: "With all that is in it. 409 while a session has it, unless force is given, which destroys those sessions.",
		},
	}, s.deleteWorkspace)
	kit.Route(s.kit, kit.Row{
		Pattern: "GET /v1/workspaces/{id}/fs", Scope: api.Key,
		Doc: kit.Doc{
			ID: "workspace-files", Summary: "List a directory of a workspace", Errors: []int{404, 409, 422, 501},
			Variables:   workspaceVariable,
			Description: "The same as fs/list.",
		},
	}, s.workspaceFiles.List)
	s.fileRoutes(fileRoutes{path: "/v1/workspaces/{id}", handlers: s.workspaceFiles, ofWorkspaces: true})
}

// fileRoutes says whose files the routes are for.
type fileRoutes struct {
	path         string
	handlers     *files.Handlers
	resolve      func(r *http.Request) error
	ofWorkspaces bool
}

var workspaceVariable = map[string]kit.Variable{"id": {Means: "The workspace's id.", Example: "project"}}

// row is one of the routes, below its path. That of a workspace is documented by
// that of a session.
func (f fileRoutes) row(r kit.Row) kit.Row {
	method, rest, _ := strings.Cut(r.Pattern, " ")
	r.Pattern, r.Resolve = method+" "+f.path+rest, f.resolve
	if f.ofWorkspaces {
		r.Doc.ID = "workspace-" + r.Doc.ID
		r.Doc.Summary += " in a workspace"
		r.Doc.Description = "As " + method + " /v1/sessions/{id}" + rest + ", without a session."
		r.Doc.Errors = append(slices.Clone(r.Doc.Errors), http.StatusNotImplemented)
		r.Doc.Variables = workspaceVariable
	}
	return r
}

// archives are the forms of an archive.
var archives = []kit.Media{
	kit.Bytes(files.ArchiveTypes["tar"]), kit.Bytes(files.ArchiveTypes["tar.gz"]), kit.Bytes(files.ArchiveTypes["tar.zst"]), kit.Bytes(files.ArchiveTypes["zip"]),
}

var uploadFields = map[string]*huma.Schema{
	"file":  {Type: "string", Format: "binary", Description: "A file. Its name is the part's filename."},
	"files": {Type: "array", Items: &huma.Schema{Type: "string", Format: "binary"}, Description: "More files: repeat the part."},
	"path":  {Type: "string", Description: "Where to. See above.", Examples: []any{"/workspace/data/"}},
}

// fileBody is a body that is a file, or is unpacked into files.
func (s *surface) fileBody(content ...kit.Media) *kit.Body {
	_, maxima, _ := s.manager.Sessions.Limits(auth.Principal{})
	return &kit.Body{Means: atMost(maxima.FileBytes), Content: content}
}

// fileRoutes are those that the files of a session and of a workspace have in
// common.
func (s *surface) fileRoutes(of fileRoutes) {
	s.fileContents(of)
	s.fileTree(of)
}

// fileContents are the routes that carry what is in files.
func (s *surface) fileContents(of fileRoutes) {
	kit.Route(s.kit, of.row(kit.Row{
		Pattern: "GET /fs/read", Scope: api.Key,
		Doc: kit.Doc{
			ID: "read-file", Summary: "Read a file", Errors: []int{403, 404, 409, 413, 416, 422},
			Answers: map[int]kit.Answer{
				200: {Content: []kit.Media{kit.JSON[files.Content](nil), kit.Bytes("application/octet-stream"), kit.Bytes("text/html")}},
				206: {Content: []kit.Media{kit.Bytes("application/octet-stream")}},
			},
			Description: "As JSON with base64. With raw=1, Accept: application/octet-stream or a Range as the bytes themselves: streamed, of any size, with X-File-Size, X-File-Mode and an ETag that every change of the file changes. One range is answered with 206, one behind the end and several with 416. HEAD works. A transfer that fails halfway breaks the connection.",
		},
	}), of.handlers.Read)
	kit.Route(s.kit, of.row(kit.Row{
		Pattern: "POST /fs/write", Scope: api.Key, MaxBody: kit.DefaultBody + 2*s.opts.WriteBytes,
		Doc: kit.Doc{
			ID: "write-file", Summary: "Write a file", Errors: []int{403, 404, 409, 415, 422, 507},
			Description: "Replaces or makes the file, and its directories, atomically. Exactly one of text and content_base64 is needed; it may be empty. The content may have as many bytes as write_bytes at /v1/info says, 16 MiB unless configured otherwise; for more use PUT fs/raw.",
		},
	}), of.handlers.Write)
	kit.Route(s.kit, of.row(kit.Row{
		Pattern: "PUT /fs/raw", Scope: api.Key, Class: api.Transfer, MaxBody: kit.NoLimit,
		Doc: kit.Doc{
			ID: "write-file-raw", Summary: "Write a file of any size", Errors: []int{403, 404, 409, 411, 412, 422, 507},
			Answers:     map[int]kit.Answer{200: {Content: []kit.Media{kit.JSON[files.Written](nil)}}},
			Body:        s.fileBody(kit.Bytes("application/octet-stream")),
			Description: "The body is the file, of any type. It is written as it arrives, atomically: if the client goes away halfway, the file is as before. Needs a Content-Length, of at most file_bytes at /v1/info. With If-Match it replaces only the file that the caller has seen, and with If-None-Match: * none: 412, and nothing changes. Of several such requests for one state of a file, one is carried out.",
		},
	}), of.handlers.WriteRaw)
	kit.Route(s.kit, of.row(kit.Row{
		Pattern: "POST /fs/upload", Scope: api.Key, Class: api.Transfer, MaxBody: kit.NoLimit,
		Doc: kit.Doc{
			ID: "upload-files", Summary: "Upload files", Errors: []int{403, 404, 409, 415, 422, 507},
			Answers:     map[int]kit.Answer{200: {Content: []kit.Media{kit.JSON[files.Uploaded](nil)}}},
			Body:        &kit.Body{Means: atMost(s.opts.UploadBytes), Content: []kit.Media{kit.Form(uploadFields)}},
			Description: "multipart/form-data with one or more parts named file or files, and a field path in any position. As with cp, path is a directory if it ends in a slash, if it is one already or if there are several files; else it is the file to write. A path that nothing is at, without an extension, is made a directory for a file that has one. Without path the files go to /workspace. Each file is written atomically, in their order, after all have arrived.",
		},
	}), of.handlers.Upload)
	kit.Route(s.kit, of.row(kit.Row{
		Pattern: "GET /fs/archive", Scope: api.Key, Class: api.Transfer,
		Doc: kit.Doc{
			ID: "download-archive", Summary: "Download a directory", Errors: []int{403, 404, 409, 422},
			Answers:     map[int]kit.Answer{200: {Content: archives}},
			Description: "Packed while it is sent: files, directories and links, with their modes and times; other kinds are left out. If it fails halfway, the connection breaks.",
		},
	}), of.handlers.Pack)
	kit.Route(s.kit, of.row(kit.Row{
		Pattern: "PUT /fs/archive", Scope: api.Key, Class: api.Transfer, MaxBody: kit.NoLimit,
		Doc: kit.Doc{
			ID: "upload-archive", Summary: "Unpack an archive into a directory", Errors: []int{403, 404, 409, 411, 422, 507},
			Answers:     map[int]kit.Answer{200: {Content: []kit.Media{kit.JSON[files.Unpacked](nil)}}},
			Body:        s.fileBody(archives...),
			Description: "The body is the archive. It is unpacked as it arrives into the directory, which is made if it is missing; what is there already is replaced. Entries that lead out of it are refused with 422. What was unpacked before an error stays. Needs a Content-Length, of at most file_bytes at /v1/info.",
		},
	}), of.handlers.Unpack)
}

// fileTree are the routes that look at files and change them where they are.
func (s *surface) fileTree(of fileRoutes) {
	kit.Route(s.kit, of.row(kit.Row{
		Pattern: "GET /fs/list", Scope: api.Key,
		Doc: kit.Doc{
			ID: "list-files", Summary: "List a directory", Errors: []int{403, 404, 409, 422},
			Description: "Sorted by name, in pages of at most 10000 entries. Entries that are there from the first page to the last are listed exactly once, whatever else comes and goes meanwhile.",
		},
	}), of.handlers.List)
	kit.Route(s.kit, of.row(kit.Row{
		Pattern: "GET /fs/stat", Scope: api.Key,
		Doc: kit.Doc{
			ID: "stat-file", Summary: "Describe a file", Errors: []int{403, 404, 409, 422},
			Description: "A file of any kind. A link is described itself unless follow is set.",
		},
	}), of.handlers.Stat)
	kit.Route(s.kit, of.row(kit.Row{
		Pattern: "POST /fs/mkdir", Scope: api.Key,
		Doc: kit.Doc{
			ID: "make-directory", Summary: "Make a directory", Errors: []int{403, 404, 409, 415, 422, 507},
			Description: "409 if something is there already, unless parents is set and it is a directory.",
		},
	}), of.handlers.Mkdir)
	kit.Route(s.kit, of.row(kit.Row{
		Pattern: "POST /fs/move", Scope: api.Key,
		Doc: kit.Doc{
			ID: "move-file", Summary: "Rename a file or directory", Errors: []int{403, 404, 409, 415, 422, 507},
			Description: "In one step: everybody sees the old name or the new. 409 if something is there, unless overwrite is set; a directory that has entries is never replaced.",
		},
	}), of.handlers.Move)
	kit.Route(s.kit, of.row(kit.Row{
		Pattern: "POST /fs/copy", Scope: api.Key,
		Doc: kit.Doc{
			ID: "copy-file", Summary: "Copy a file or directory", Errors: []int{403, 404, 409, 415, 422, 507},
			Description: "Files, directories and links as links, with their modes; other kinds are refused. 409 if something is there, unless overwrite is set.",
		},
	}), of.handlers.Copy)
	kit.Route(s.kit, of.row(kit.Row{
		Pattern: "POST /fs/delete", Scope: api.Key,
		Doc: kit.Doc{
			ID: "delete-file", Summary: "Remove a file or directory", Errors: []int{403, 404, 409, 415, 422},
			Description: "A directory that has entries only if recursive is set, else 409. Links are removed, not followed.",
		},
	}), of.handlers.Delete)
	kit.Route(s.kit, of.row(kit.Row{
		Pattern: "POST /fs/chmod", Scope: api.Key,
		Doc: kit.Doc{
			ID: "change-mode", Summary: "Change the mode of a file", Errors: []int{403, 404, 409, 415, 422},
			Description: "Or of a directory, with recursive also of the files and directories in it.",
		},
	}), of.handlers.Chmod)
	kit.Route(s.kit, of.row(kit.Row{
		Pattern: "POST /fs/edit", Scope: api.Key, MaxBody: maxExecBody,
		Doc: kit.Doc{
			ID: "edit-file", Summary: "Replace text in a file", Errors: []int{403, 404, 409, 415, 422, 507},
			Description: "Every place where the old text is, written atomically. If it is not there as often as count says, 422 and the file stays as it is.",
		},
	}), of.handlers.Edit)
	kit.Route(s.kit, of.row(kit.Row{
		Pattern: "GET /fs/glob", Scope: api.Key,
		Doc: kit.Doc{
			ID: "find-files", Summary: "Find files by name", Errors: []int{403, 404, 409, 422},
			Description: "Below a directory, links not followed.",
		},
	}), of.handlers.Glob)
	kit.Route(s.kit, of.row(kit.Row{
		Pattern: "GET /fs/grep", Scope: api.Key,
		Doc: kit.Doc{
			ID: "search-files", Summary: "Find lines by their text", Errors: []int{403, 404, 409, 422},
			Description: "In the regular files below a directory, or in one file. Binary files are passed over.",
		},
	}), of.handlers.Grep)
}
