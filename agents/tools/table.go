package tools

import "fmt"

// Fields that many tools have.
var (
	sandboxID = need("sandbox_id", typeString, "From sandbox_open.")
	execID    = need("exec_id", typeString, "From sandbox_exec.")
	timeout   = may("timeout_seconds", typeInteger, "").between(1, 3600).or(int64(120))
	env       = may("env", typeMap, "")
)

// unlessStreamed is the timeout of a command that may be left to itself. It has no
// default in the schema: a model that sends what it reads there would end its server.
func unlessStreamed(seconds int64) field {
	return may(timeout.name, typeInteger, fmt.Sprintf("If left out: %d, with stream none.", seconds)).between(1, max(timeout.maximum, seconds))
}

// table is all tools, in the order in which models read them. Descriptions are short:
// each word is read by a model in every turn.
func table() []Tool {
	all := sandboxTools()
	all = append(all, execTools()...)
	all = append(all, fileTools()...)
	return append(all, otherTools()...)
}

func sandboxTools() []Tool {
	return []Tool{{
		Name:        "sandbox_open",
		Title:       "Open a sandbox",
		Description: "Open or resume a Linux sandbox. Call this first and pass its sandbox_id to the other tools. Files below /workspace persist, also for other agents of the same run.",
		Idempotent:  true,
		input: []field{
			may("session_key", typeString, "Another sandbox of this run than the shared one."),
			may("image", typeString, "Image for a new sandbox."),
			{name: "limits", kind: typeObject, description: "For a new sandbox.", fields: []field{
				may("cpu_millicores", typeInteger, "").between(10, 1_024_000),
				may("memory_mb", typeInteger, "").between(16, 16<<20),
				may("workspace_mb", typeInteger, "").between(16, 1<<30),
				may("timeout_seconds", typeInteger, "Idle time until it ends.").between(1, 365*86400),
			}},
			may("network", typeString, "For a new sandbox: none or internet, if allowed."),
			may("workspace", typeString, "Name of a /workspace that outlives the sandbox."),
		},
		answer: openAnswer{},
		handle: openTool,
	}, {
		Name:        "sandbox_close",
		Title:       "End a sandbox",
		Description: "End a sandbox. Usually not needed: it ends with the run.",
		Idempotent:  true,
		Destructive: true,
		input:       []field{sandboxID, may("delete_workspace", typeBoolean, "false keeps its files for a later sandbox_open, true also deletes a named workspace.")},
		answer:      closeAnswer{},
		handle:      closeTool,
	}, {
		Name:        "sandbox_run",
		Title:       "Run code once",
		Description: "Run code once in a fresh sandbox that is removed afterwards.",
		input: []field{
			{name: "runtime", kind: typeString, enum: []string{"python", "node", "bash"}, fallback: defaultRuntime},
			need("code", typeString, ""),
			may("args", typeStrings, ""), env,
			may("files", typeMap, "Further files: path to contents."),
			timeout,
			may("bytes", typeBoolean, "Base64 of output that is no text.").or(false),
		},
		answer: runAnswer{},
		handle: runTool,
	}}
}

func execTools() []Tool {
	return []Tool{{
		Name:        "sandbox_exec",
		Title:       "Run a program",
		Description: "Run a program and return exit code, stdout and stderr. No shell: for pipes or cd use sandbox_shell.",
		Destructive: true,
		input: []field{
			sandboxID,
			need("cmd", typeStrings, `Program and arguments: ["python3", "main.py"].`),
			may("cwd", typeString, "").or(workspace), env, unlessStreamed(120),
			may("stream", typeBoolean, "Return an exec_id at once, for servers and long programs.").or(false),
		},
		answer: execAnswer{},
		handle: execTool,
	}, {
		Name:        "sandbox_exec_read",
		Title:       "Read output",
		Description: "Read output of a program as chunks, each with its seq. Pass next_seq as since_seq to go on.",
		ReadOnly:    true,
		input: []field{
			sandboxID, execID,
			may("since_seq", typeInteger, "Only chunks behind this seq.").between(0, 1<<53-1).or(int64(0)),
			may("max_chunks", typeInteger, "").between(1, 1000),
			may("bytes", typeBoolean, "Base64 of what is no text.").or(false),
		},
		answer: readAnswer{},
		handle: execReadTool,
	}, {
		Name:        "sandbox_exec_wait",
		Title:       "Wait for a program",
		Description: "Wait for the end of a program that was started with stream.",
		ReadOnly:    true,
		input:       []field{sandboxID, execID, may("timeout_seconds", typeInteger, "").between(1, 600).or(int64(60))},
		answer:      waitAnswer{},
		handle:      execWaitTool,
	}, {
		Name:        "sandbox_run_code",
		Title:       "Run code in a kernel",
		Description: "Run code in a kernel that remembers variables and imports. Returns text, tables and charts as data, and pictures.",
		Destructive: true,
		input:       []field{sandboxID, need("code", typeString, ""), may("language", typeString, "").or("python"), timeout},
		answer:      codeAnswer{},
		handle:      codeTool,
	}, {
		Name:        "sandbox_shell",
		Title:       "Run in the shell",
		Description: "Run a command in the sandbox's persistent bash: directory, variables and jobs stay for the next call. Start servers with & and output to a file.",
		Destructive: true,
		input: []field{
			sandboxID, need("command", typeString, "Shell code of one or many lines."), timeout,
			may("stdin", typeString, ""),
			may("shell", typeString, "Name of another shell, made if missing."),
		},
		answer: shellAnswer{},
		handle: shellTool,
	}}
}

func fileTools() []Tool {
	file := need("path", typeString, "Relative to /workspace.")
	dir := may("path", typeString, "Directory, relative to /workspace.").or(".")
	return []Tool{{
		Name:        "sandbox_fs_write",
		Title:       "Write a file",
		Description: "Write a whole file; missing directories are made.",
		Idempotent:  true,
		Destructive: true,
		input: []field{
			sandboxID, file, may("contents", typeString, ""),
			may("contents_b64", typeString, "Instead of contents, for binary."),
			may("mode", typeString, "").or("0644"),
			may("overwrite", typeBoolean, "").or(true),
		},
		answer: fileAnswer{},
		handle: writeTool,
	}, {
		Name:        "sandbox_fs_read",
		Title:       "Read a file",
		Description: "Read a file: contents if it is text, else contents_b64.",
		ReadOnly:    true,
		input: []field{
			sandboxID, file,
			may("offset", typeInteger, "First byte.").between(0, 1<<53-1).or(int64(0)),
			may("max_bytes", typeInteger, "").between(1, maxRead).or(int64(readBytes)),
		},
		answer: contents{},
		handle: readTool,
	}, {
		Name:        "sandbox_fs_edit",
		Title:       "Edit a file",
		Description: "Replace exact text in a file, and return the diff. old must be there exactly count times, whitespace included.",
		Destructive: true,
		input: []field{
			sandboxID, file, need("old", typeString, ""), need("new", typeString, ""),
			may("count", typeInteger, "0 is all.").between(0, 1_000_000).or(int64(1)),
		},
		answer: editAnswer{},
		handle: editTool,
	}, {
		Name:        "sandbox_fs_list",
		Title:       "List a directory",
		Description: "List a directory.",
		ReadOnly:    true,
		input:       []field{sandboxID, dir, may("recursive", typeBoolean, "").or(false)},
		answer:      listAnswer{},
		handle:      listTool,
	}, {
		Name:        "sandbox_fs_delete",
		Title:       "Delete a file",
		Description: "Delete a file or directory.",
		Idempotent:  true,
		Destructive: true,
		input:       []field{sandboxID, file, may("recursive", typeBoolean, "Needed for directories.").or(false)},
		answer:      deleteAnswer{},
		handle:      deleteTool,
	}, {
		Name:        "sandbox_fs_grep",
		Title:       "Search in files",
		Description: "Find lines by a regular expression.",
		ReadOnly:    true,
		input: []field{
			sandboxID, need("pattern", typeString, ""), dir,
			may("include", typeString, "Glob for file names: *.py."),
			may("literal", typeBoolean, "The pattern is plain text."),
			may("ignore_case", typeBoolean, ""),
			may("context", typeInteger, "Lines around each match.").between(0, 20),
			may("limit", typeInteger, "").between(1, 1000).or(int64(maxMatches)),
		},
		answer: grepAnswer{},
		handle: grepTool,
	}, {
		Name:        "sandbox_fs_glob",
		Title:       "Find files",
		Description: "Find files by name: **/*.py.",
		ReadOnly:    true,
		input:       []field{sandboxID, need("pattern", typeString, ""), dir, may("limit", typeInteger, "").between(1, listEntries).or(int64(listEntries))},
		answer:      listAnswer{},
		handle:      globTool,
	}, {
		Name:        "sandbox_stage_file",
		Title:       "Fetch a file of the user",
		Description: "Copy a file that the user has provided into the sandbox.",
		Idempotent:  true,
		Destructive: true,
		needsFiles:  true,
		input:       []field{sandboxID, need("file_key", typeString, ""), need("destination", typeString, "Relative to /workspace.")},
		answer:      fileAnswer{},
		handle:      stageTool,
	}, {
		Name:        "sandbox_publish_file",
		Title:       "Give a file to the user",
		Description: "Give a file of the sandbox to the user; returns its file_key.",
		Destructive: true,
		needsFiles:  true,
		input:       []field{sandboxID, need("source", typeString, "Relative to /workspace."), may("file_key", typeString, "")},
		answer:      publishAnswer{},
		handle:      publishTool,
	}}
}

func otherTools() []Tool {
	return []Tool{{
		Name:        "sandbox_expose_port",
		Title:       "Expose a port",
		Description: "Get a URL for a web server in the sandbox.",
		input: []field{
			sandboxID, need("port", typeInteger, "").between(1, 65535),
			may("ttl_seconds", typeInteger, "How long the URL works.").between(1, 30*86400),
		},
		answer: portAnswer{},
		handle: exposeTool,
	}, {
		Name:        "sandbox_snapshot",
		Title:       "Save a snapshot",
		Description: "Save all files of the sandbox; returns a snapshot_id.",
		input:       []field{sandboxID},
		answer:      snapshotAnswer{},
		handle:      snapshotTool,
	}, {
		Name:        "sandbox_restore",
		Title:       "Restore a snapshot",
		Description: "Begin anew with a snapshot's files, in place of the sandbox of session_key. Returns a new sandbox_id.",
		Destructive: true,
		input:       []field{need("snapshot_id", typeString, ""), may("session_key", typeString, "")},
		answer:      openAnswer{},
		handle:      restoreTool,
	}}
}
