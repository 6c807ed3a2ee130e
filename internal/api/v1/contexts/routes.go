package contexts

import (
	"net/http"

	"github.com/sandkasten/sandkasten/internal/api"
	"github.com/sandkasten/sandkasten/internal/api/kit"
)

// maxBody is for code of 1 MiB in which every character may be escaped.
const maxBody = 8 << 20

// Routes adds the routes to a surface. Resolve turns the name of a session in a path into
// its id.
func (h *Handlers) Routes(s *kit.Surface, resolve func(*http.Request) error) {
	const (
		all = "/v1/sessions/{id}/contexts"
		one = all + "/{ctx}"
		run = one + "/runs/{run_id}"
	)
	kit.Route(s, kit.Row{
		Pattern: "POST /v1/sessions/{id}/run-code", Scope: api.Key, Class: api.Long, MaxBody: maxBody, Resolve: resolve,
		Doc: kit.Doc{
			ID: "run-code", Summary: "Run code in a kernel that remembers", Errors: []int{404, 409, 415, 422, 507},
			Description: "Runs code in the session's default context of the language, named default-LANGUAGE, which the first call makes: variables, imports and functions stay for the next. The answer is 200 however the code ended; cause says how. Everything else is as for run of a context.",
		},
	}, h.RunCode)
	kit.Route(s, kit.Row{
		Pattern: "POST /v1/sessions/{id}/run-code/stream", Scope: api.Key, Class: api.Long, MaxBody: maxBody, Resolve: resolve,
		Doc: kit.Doc{
			ID: "run-code-stream", Summary: "Run code and follow what it shows", Media: "text/event-stream", Errors: []int{404, 409, 415, 422, 507},
			Example:     exampleRunStream,
			Description: "The same request, answered with the events of run/stream.",
		},
	}, h.RunCodeStream)
	kit.Route(s, kit.Row{
		Pattern: "POST " + all, Scope: api.Key, Class: api.Long, Resolve: resolve,
		Doc: kit.Doc{
			ID: "create-context", Summary: "Make a context", Status: 201, Errors: []int{404, 409, 415, 422, 507},
			Description: "Starts a Jupyter kernel of the image, and answers when it is ready. A context is a process of the session in the background: it goes on without clients, counts for the session's limits, stands still with it, and ends with its stop. Forks and snapshots have the files and no contexts. An image without a kernel for the language is 422 with the reason no_kernel; the message names the kernels that it has.",
		},
	}, h.Create)
	kit.Route(s, kit.Row{
		Pattern: "GET " + all, Scope: api.Key, Turn: true, Resolve: resolve,
		Doc: kit.Doc{
			ID: "list-contexts", Summary: "List contexts", Errors: []int{404, 409},
			Description: "Those that run, and those that ended not long ago, oldest first. Asking is not activity.",
		},
	}, h.List)
	kit.Route(s, kit.Row{
		Pattern: "GET " + one, Scope: api.Key, Resolve: resolve,
		Doc: kit.Doc{
			ID: "get-context", Summary: "Get a context", Errors: []int{404, 409},
			Description: "With what its kernel does now.",
		},
	}, h.Get)
	kit.Route(s, kit.Row{
		Pattern: "POST " + one + "/interrupt", Scope: api.Key, Resolve: resolve,
		Doc: kit.Doc{
			ID: "interrupt-context", Summary: "Interrupt a context's run", Errors: []int{404, 409},
			Description: "As Ctrl-C does: the run ends as interrupted if the code lets it, and the kernel keeps its state. Runs that wait come after it.",
		},
	}, h.Interrupt)
	kit.Route(s, kit.Row{
		Pattern: "POST " + one + "/restart", Scope: api.Key, Class: api.Long, Resolve: resolve,
		Doc: kit.Doc{
			ID: "restart-context", Summary: "Give a context a new kernel", Errors: []int{404, 409, 422},
			Description: "Answers when the new kernel is ready. Variables are gone, and runs that wait or are underway end as canceled.",
		},
	}, h.Restart)
	kit.Route(s, kit.Row{
		Pattern: "DELETE " + one, Scope: api.Key, Resolve: resolve,
		Doc: kit.Doc{
			ID: "delete-context", Summary: "End a context", Errors: []int{404, 409},
			Description: "With all that its kernel started. To repeat it is no error.",
		},
	}, h.Delete)
	kit.Route(s, kit.Row{
		Pattern: "POST " + one + "/run", Scope: api.Key, Class: api.Long, MaxBody: maxBody, Resolve: resolve,
		Doc: kit.Doc{
			ID: "run-in-context", Summary: "Run code in a context and wait for its end", Errors: []int{404, 409, 415, 422, 429, 507},
			Description: "Runs of one context come one after another; up to 64 wait. The answer is 200 however the code ended; cause says how. At its timeout a run is interrupted, which keeps the state; one that goes on is killed with the kernel 5 s later, and state_lost says so. If the client goes away the run goes on, and GET runs/{run_id} has its answer. Forms of results that are larger than 8 MiB together, and text beyond 1 MiB, are in files of the sandbox that the answer names. input() raises an error.",
		},
	}, h.Run)
	kit.Route(s, kit.Row{
		Pattern: "POST " + one + "/run/stream", Scope: api.Key, Class: api.Long, MaxBody: maxBody, Resolve: resolve,
		Doc: kit.Doc{
			ID: "run-in-context-stream", Summary: "Run code in a context and follow what it shows", Media: "text/event-stream", Errors: []int{404, 409, 415, 422, 429, 507},
			Example:     exampleRunStream,
			Description: "Server-sent events. First start, with the run's id, also while the run waits for others; then stdout and stderr with text, result with the fields of a result (updates says that it takes the place of those with its display_id, perhaps of a run before), exception with those of an error, and clear, after which what came before is not shown any more; at last exactly one of done, with the whole answer, and error with the fields of an error of the API. Every id is the run's id, a colon and a number that grows. After a broken stream go on at runs/{run_id}/stream. Of events that nobody has read the newest 8 MiB are kept, and done has everything.",
		},
	}, h.RunStream)
	kit.Route(s, kit.Row{
		Pattern: "GET " + run, Scope: api.Key, Class: api.Long, Resolve: resolve,
		Doc: kit.Doc{
			ID: "get-run", Summary: "Get a run of a context", Errors: []int{404, 409},
			Description: "Its answer, or what it showed until now. A context keeps its last 32 runs for as long as it runs.",
		},
	}, h.GetRun)
	kit.Route(s, kit.Row{
		Pattern: "GET " + run + "/stream", Scope: api.Key, Class: api.Long, Resolve: resolve,
		Doc: kit.Doc{
			ID: "follow-run", Summary: "Follow a run of a context", Media: "text/event-stream", Errors: []int{404, 409},
			Example:     exampleRunStream,
			Answers:     kit.NothingBehind,
			Description: "The events of run/stream, behind that of Last-Event-ID.",
		},
	}, h.FollowRun)
}

const exampleRunStream = `event: start
id: k3m5n6p7r2s3t4u5f5q2bz7lq4:0
data: {"context_id":"f5q2bz7lq4m3k5n6p7r2s3t4u5","run_id":"k3m5n6p7r2s3t4u5f5q2bz7lq4"}

event: stdout
id: k3m5n6p7r2s3t4u5f5q2bz7lq4:2
data: {"text":"hi\n"}

event: done
id: k3m5n6p7r2s3t4u5f5q2bz7lq4:end
data: {"context_id":"f5q2bz7lq4m3k5n6p7r2s3t4u5","run_id":"k3m5n6p7r2s3t4u5f5q2bz7lq4","cause":"completed","results":[],"stdout":"hi\n","stderr":"","execution_count":1,"duration_ms":9,"state_lost":false,"new_kernel":false}

`
