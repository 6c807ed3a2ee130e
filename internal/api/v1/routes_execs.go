package v1

import (
	"github.com/sandkasten/sandkasten/internal/api"
	"github.com/sandkasten/sandkasten/internal/api/kit"
)

// execRoutes are those of what runs in sessions.
func (s *surface) execRoutes() {
	kit.Route(s.kit, kit.Row{
		Pattern: "POST /v1/sessions/{id}/exec", Scope: api.Key, Class: api.Long, MaxBody: maxExecBody, Resolve: s.resolveSession,
		Doc: kit.Doc{
			ID: "exec", Summary: "Run a command and wait for its end", Errors: []int{404, 409, 415, 422, 507},
			Example:     exampleExec,
			Description: "Runs in the session's persistent shell: directory, variables, functions and background jobs stay for the next command. Commands of one shell run one after another. The answer is 200 however the command ended; cause says how. A command that is out of time is killed with all its processes, and the answer has what it printed until then. If the client goes away the command goes on; its record stays at /v1/sessions/{id}/execs. Beyond the output limit the first and the last half are kept, and a line between them says how much is missing.",
		},
	}, s.exec)
	kit.Route(s.kit, kit.Row{
		Pattern: "POST /v1/sessions/{id}/exec/stream", Scope: api.Key, Class: api.Long, MaxBody: maxExecBody, Resolve: s.resolveSession,
		Doc: kit.Doc{
			ID: "exec-stream", Summary: "Run a command and follow its output", Media: "text/event-stream", Errors: []int{404, 409, 415, 422, 507},
			Example:     exampleStream,
			Description: "Server-sent events. First start, with the exec's id; then chunk for each piece of output; at last exactly one of done, with the fields of exec's answer but for the output, and error, with the fields of an error. Every id is the exec's id, a colon and the byte offset behind the chunk in the command's raw output, or end for done. After a broken stream, go on at /v1/sessions/{id}/execs/{exec_id}/stream with that id as Last-Event-ID: no byte is lost or doubled. A client that is slow to read slows the command down.",
		},
	}, s.execStream)
	kit.Route(s.kit, kit.Row{
		Pattern: "GET /v1/sessions/{id}/exec/stream", Scope: api.Key, Class: api.Long, Acts: true, Resolve: s.resolveSession,
		Doc: kit.Doc{
			ID: "exec-events", Summary: "Run a command and follow its output, from an EventSource", Media: "text/event-stream", Errors: []int{404, 409, 422, 507},
			Example:     exampleStream,
			Answers:     kit.NothingBehind,
			Description: "The same with a query instead of a body. An EventSource whose connection breaks comes back with Last-Event-ID, which goes on behind that event and runs nothing; behind done the answer is 204, which ends its coming back.",
		},
	}, s.execEvents)
	kit.Route(s.kit, kit.Row{
		Pattern: "GET /v1/sessions/{id}/execs", Scope: api.Key, Resolve: s.resolveSession,
		Doc: kit.Doc{
			ID: "list-execs", Summary: "List commands and processes", Errors: []int{404, 409},
			Description: "Those that the session still knows, oldest first: those that wait, run, or ended not long ago. Asking is not activity.",
		},
	}, s.listExecs)
	kit.Route(s.kit, kit.Row{
		Pattern: "POST /v1/sessions/{id}/processes", Scope: api.Key, Class: api.Long, MaxBody: maxExecBody, Resolve: s.resolveSession,
		Doc: kit.Doc{
			ID: "start-process", Summary: "Run a process", Errors: []int{404, 409, 415, 422, 507},
			Example:     exampleProcess,
			Answers:     map[int]kit.Answer{201: {Means: "It runs in the background.", Content: []kit.Media{kit.JSON[ProcessResponse](exampleStarted)}}},
			Description: "Runs a program without a shell, beside everything else in the session, with its standard output and error apart. The answer comes at its end, with 200 however it ended; in the background at once, with 201. It is an exec like the commands of shells: its id works at /v1/sessions/{id}/execs too. A program that cannot be started is 422. A foreground process, and whoever reads or waits, keep the session in use; a background process alone does not.",
		},
	}, s.startProcess)
	kit.Route(s.kit, kit.Row{
		Pattern: "POST /v1/sessions/{id}/processes/stream", Scope: api.Key, Class: api.Long, MaxBody: maxExecBody, Resolve: s.resolveSession,
		Doc: kit.Doc{
			ID: "process-stream", Summary: "Run a process and follow its output", Media: "text/event-stream", Errors: []int{404, 409, 415, 422, 507},
			Example:     exampleStream,
			Description: "The same request, not in the background, answered with the events of exec/stream. Chunks say their stream. A program that cannot be started is 422 with field cmd, and no stream.",
		},
	}, s.processStream)
	kit.Route(s.kit, kit.Row{
		Pattern: "GET /v1/sessions/{id}/processes", Scope: api.Key, Resolve: s.resolveSession,
		Doc: kit.Doc{
			ID: "list-processes", Summary: "List processes", Errors: []int{404, 409},
			Description: "The list of execs without the commands of shells.",
		},
	}, s.listProcesses)
	kit.Route(s.kit, kit.Row{
		Pattern: "DELETE /v1/sessions/{id}/processes/{exec_id}", Scope: api.Key, Resolve: s.resolveExec,
		Doc: kit.Doc{
			ID: "delete-process", Summary: "End a process", Errors: []int{404, 409},
			Description: "The same as cancel.",
		},
	}, s.cancelExec)
	kit.Route(s.kit, kit.Row{
		Pattern: "GET /v1/sessions/{id}/shells", Scope: api.Key, Resolve: s.resolveSession,
		Doc: kit.Doc{
			ID: "list-shells", Summary: "List shells", Errors: []int{404, 409},
			Description: "By name. Asking is not activity.",
		},
	}, s.listShells)
	kit.Route(s.kit, kit.Row{
		Pattern: "DELETE /v1/sessions/{id}/shells/{name}", Scope: api.Key, Resolve: s.resolveSession,
		Doc: kit.Doc{
			ID: "close-shell", Summary: "Close a shell", Errors: []int{404, 409},
			Description: "Ends the shell and all that it started; its commands end as canceled. The next command that names it gets a new one, as does the default shell at once.",
		},
	}, s.closeShell)
	s.oneExec(execRoutes{path: "/v1/sessions/{id}/execs/{exec_id}", noun: "exec", thing: "a command", attach: "attach-stream"})
	s.oneExec(execRoutes{path: "/v1/sessions/{id}/processes/{exec_id}", noun: "process", thing: "a process", attach: "attach-process-stream"})
}

// execRoutes says how the routes of one exec are called.
type execRoutes struct {
	path   string
	noun   string // in ids
	thing  string // in sentences
	attach string // the id of following it
}

// oneExec are the routes of one exec, which may be a shell's command or a process:
// both have them, below their own path.
func (s *surface) oneExec(of execRoutes) {
	kit.Route(s.kit, kit.Row{
		Pattern: "GET " + of.path, Scope: api.Key, Class: api.Long, Listens: true, Resolve: s.resolveExec,
		Doc: kit.Doc{
			ID: "get-" + of.noun, Summary: "Get the record and output of " + of.thing, Errors: []int{404, 409},
			Description: "Also of one whose client went away or that was running while the daemon restarted. With wait_ms the answer comes when it ends, or after that time with what there is. Of a process the output is both streams in the order in which they were read.",
		},
	}, s.getExec)
	kit.Route(s.kit, kit.Row{
		Pattern: "GET " + of.path + "/output", Scope: api.Key, Resolve: s.resolveExec,
		Doc: kit.Doc{
			ID: of.noun + "-output", Summary: "Read the output of " + of.thing + " piece by piece", Errors: []int{404, 409},
			Description: "What is kept of the output behind since_seq, as it was written. Pass next_seq as since_seq to go on: no byte is lost silently or doubled. While nobody reads, the beginning and the end of what is written are kept, and dropped counts the bytes of the middle. Nobody is held up by this call: use stream to have a command wait for its reader.",
		},
	}, s.readOutput)
	kit.Route(s.kit, kit.Row{
		Pattern: "GET " + of.path + "/stream", Scope: api.Key, Class: api.Long, Listens: true, Resolve: s.resolveExec,
		Doc: kit.Doc{
			ID: of.attach, Summary: "Follow the output of " + of.thing + " from anywhere", Media: "text/event-stream", Errors: []int{404, 409},
			Example:     exampleStream,
			Answers:     kit.NothingBehind,
			Description: "The events of exec/stream, from the start or from Last-Event-ID, which may be the id of an event or the offset in it. Chunks of a process say its stream. 204 behind done.",
		},
	}, s.attachStream)
	kit.Route(s.kit, kit.Row{
		Pattern: "POST " + of.path + "/wait", Scope: api.Key, Class: api.Long, Listens: true, Resolve: s.resolveExec,
		Doc: kit.Doc{
			ID: "wait-" + of.noun, Summary: "Wait for the end of " + of.thing, Errors: []int{404, 409, 415},
			Description: "Answers with its record when it has ended, or after timeout_ms with the record as it is.",
		},
	}, s.waitExec)
	kit.Route(s.kit, kit.Row{
		Pattern: "POST " + of.path + "/stdin", Scope: api.Key, MaxBody: maxExecBody, Resolve: s.resolveExec,
		Doc: kit.Doc{
			ID: of.noun + "-stdin", Summary: "Write to standard input of " + of.thing, Errors: []int{404, 409, 415},
			Description: "Of a command or process that was started with open_stdin, or a process with tty. 409 if its stdin is not open, or not any more: it has ended, or the stdin was closed. The answer comes when the command has taken the data, or after 5 s with how much of it it took; a command that waits for its shell takes nothing yet.",
		},
	}, s.writeStdin)
	kit.Route(s.kit, kit.Row{
		Pattern: "POST " + of.path + "/signal", Scope: api.Key, Resolve: s.resolveExec,
		Doc: kit.Doc{
			ID: "signal-" + of.noun, Summary: "Send a signal to " + of.thing, Errors: []int{404, 409, 415},
			Description: "To the process group of a process, the foreground job of its terminal, or what a shell's command started. To end something with all that it started, use cancel.",
		},
	}, s.signalExec)
	kit.Route(s.kit, kit.Row{
		Pattern: "POST " + of.path + "/resize", Scope: api.Key, Resolve: s.resolveExec,
		Doc: kit.Doc{
			ID: "resize-" + of.noun, Summary: "Resize the terminal of " + of.thing, Errors: []int{404, 409, 415},
			Description: "Of a process with a terminal. What runs on it gets WINCH.",
		},
	}, s.resizeExec)
	kit.Route(s.kit, kit.Row{
		Pattern: "POST " + of.path + "/cancel", Scope: api.Key, Resolve: s.resolveExec,
		Doc: kit.Doc{
			ID: "cancel-" + of.noun, Summary: "End " + of.thing, Errors: []int{404, 409},
			Description: "Kills it with all its processes, as a timeout does. To cancel what has ended is no error.",
		},
	}, s.cancelExec)
}
