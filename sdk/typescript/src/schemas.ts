// Made by scripts/generate.mjs from the daemon's OpenAPI document; do not change it.

export type paths = Record<string, never>;
export type webhooks = Record<string, never>;
export interface components {
    schemas: {
        AgentFunction: {
            /** @example Open or resume a Linux sandbox. */
            description: string;
            /** @example sandbox_open */
            name: string;
            /** @description The JSON schema of its input. */
            parameters: {
                [key: string]: unknown;
            };
        };
        AgentTool: {
            /** @description Of format mcp. */
            annotations?: {
                [key: string]: unknown;
            };
            /** @description Of the other formats. */
            description?: string;
            /** @description Of format openai. */
            function?: components["schemas"]["AgentFunction"];
            /** @description Of format anthropic. */
            inputSchema?: {
                [key: string]: unknown;
            };
            /** @description Of the other formats. */
            name?: string;
            /** @description Of format mcp. */
            outputSchema?: {
                [key: string]: unknown;
            };
            /** @description Of format mcp. */
            title?: string;
            /**
             * @description Of format openai: function.
             * @example function
             */
            type?: string;
        };
        AuditEntry: {
            /**
             * Format: int64
             * @description Of the body; -1 if the client did not say.
             * @example 2
             */
            bytesIn: number;
            /**
             * Format: int64
             * @example 900
             */
            bytesOut: number;
            /**
             * @description answered; answering: a long answer has begun; refused: requests without a line of their own; recovered: follows a line that a crash cut.
             * @example answered
             */
            event: string;
            /** @description Those in the path and what was made, each by what it is of: session, exec, snapshot, workspace, user, key. */
            ids?: {
                [key: string]: string;
            };
            /**
             * @description Whose it is that an admin looked into, or whose key it made.
             * @example alice
             */
            of?: string;
            /**
             * @description Of the key; not there without a valid one.
             * @example alice
             */
            owner?: string;
            /**
             * @description The client's address.
             * @example 127.0.0.1:40000
             */
            remote?: string;
            requestId?: string;
            /**
             * Format: int64
             * @description Of refused: how many.
             */
            requests?: number;
            /** @example POST /v1/sessions */
            route?: string;
            /**
             * Format: int64
             * @description Its number in the log.
             * @example 1042
             */
            seq: number;
            /**
             * Format: int64
             * @example 201
             */
            status?: number;
            /** Format: date-time */
            time: string;
            /**
             * Format: double
             * @example 1.5
             */
            tookMs: number;
        };
        AuditPage: {
            entries: components["schemas"]["AuditEntry"][] | null;
            /**
             * Format: int64
             * @description before of the next page. Not there where nothing is left. A page may be empty and not the last: one request reads a part of a long log.
             */
            nextBefore?: number;
        };
        Axes: {
            series: components["schemas"]["Series"][];
            /** @example Sales */
            title: string;
            /** @example line */
            type: string;
            /** @example month */
            xLabel: string;
            /** @example linear */
            xScale: string;
            /** @example EUR */
            yLabel: string;
            /** @example linear */
            yScale: string;
        };
        BuildRequest: {
            /** @description What the recipe's copy may take. */
            files?: components["schemas"]["RecipeFile"][];
            /** @description Do nothing if this recipe has made the image already. */
            ifAbsent?: boolean;
            /**
             * @description Of the image, and of its recipe if there is no other.
             * @example tools
             */
            name: string;
            /** @description Make each step anew, also one that was made a moment ago. */
            noCache?: boolean;
            /**
             * @description The text of a recipe, in YAML. Without it the recipe that comes with the daemon under the name.
             * @example from: python
             *     packages: [python3-numpy]
             */
            recipe?: string;
        };
        BulkAnswer: {
            results: components["schemas"]["BulkResult"][];
        };
        BulkRequest: {
            /**
             * @description What to do with each.
             * @example stop
             * @enum {string}
             */
            action: "stop" | "start" | "pause" | "resume" | "destroy";
            /**
             * @description Ids, names or beginnings of ids.
             * @example [
             *       "f5q2bz7lq4m3k5n6p7r2s3t4u5"
             *     ]
             */
            ids: string[];
        };
        BulkResult: {
            /** @description Why it failed. Absent if it did not. */
            error?: components["schemas"]["ErrorBody"];
            /**
             * @description As in the request.
             * @example f5q2bz7lq4m3k5n6p7r2s3t4u5
             */
            id: string;
            /** @description As it is then. Absent after destroy, and beside error. */
            session?: components["schemas"]["Session"];
            /**
             * Format: int64
             * @description The status of the answer that a request for this session alone would have.
             * @example 200
             */
            status: number;
        };
        Chart: {
            axes: components["schemas"]["Axes"][];
            /** @example matplotlib */
            library: string;
            /** @example Sales */
            title: string;
            /**
             * @description That of all series: line, bar, horizontal_bar, scatter, pie, image, or what plotly calls others; mixed, or empty.
             * @example line
             */
            type: string;
        };
        ChmodRequest: {
            /** @example 0755 */
            mode: string;
            /**
             * @description Absolute, or from /workspace. Links are followed.
             * @example /workspace/run.sh
             */
            path: string;
            /** @description Also what is below it; links there are left alone. */
            recursive?: boolean;
        };
        Chunk: {
            /** @description Instead of text, where that is not valid UTF-8. */
            base64?: string;
            /**
             * Format: int64
             * @description The offset behind its last byte in all that was written. It only grows.
             * @example 3
             */
            seq: number;
            /**
             * @description output is that of a shell's command or of a terminal, which is one for everything.
             * @enum {string}
             */
            stream: "stdout" | "stderr" | "output";
            /** @example hi */
            text?: string;
        };
        CodeContext: {
            /** @description How its process ended; see exec. */
            cause?: string;
            /**
             * @description Also the exec_id of its process.
             * @example f5q2bz7lq4m3k5n6p7r2s3t4u5
             */
            contextId: string;
            /** Format: date-time */
            createdAt: string;
            /**
             * @description The name of its kernelspec. This and the rest is not in lists.
             * @example python3
             */
            kernel?: string;
            /**
             * Format: int64
             * @description How many kernels it has had.
             * @example 1
             */
            kernelsStarted?: number;
            /** @example python */
            language: string;
            /** @example analysis */
            name?: string;
            /**
             * Format: int64
             * @description The kernel's, inside the sandbox.
             * @example 42
             */
            pid?: number;
            /**
             * Format: int64
             * @description Runs that wait.
             */
            queued?: number;
            /** @description The run that it is at. */
            runId?: string;
            /**
             * @description no_kernel: the kernel has ended, and the next run gets a new one.
             * @example idle
             * @enum {string}
             */
            state?: "starting" | "idle" | "busy" | "no_kernel";
            /**
             * @example running
             * @enum {string}
             */
            status: "running" | "ended";
        };
        Column: {
            /** @example price */
            name: string;
            /**
             * @description As the library calls it.
             * @example float64
             */
            type: string;
        };
        CommitRequest: {
            /**
             * @description Of the image.
             * @example tools
             */
            name: string;
            /**
             * @description The session; or else snapshot_id.
             * @example f5q2bz7lq4m3k5n6p7r2s3t4u5
             */
            sessionId?: string;
            /** @description A snapshot of scope sandbox. */
            snapshotId?: string;
        };
        CompleteRequest: {
            /**
             * Format: int64
             * @description How long they are kept. 0 is not at all.
             * @example 0
             */
            retentionSeconds?: number;
        };
        Completed: {
            /**
             * Format: date-time
             * @description When they begin to end.
             */
            endsAt: string;
            /** @example workflow:run-1 */
            scope: string;
            /**
             * Format: int64
             * @description That have not ended yet.
             * @example 0
             */
            sessions: number;
        };
        Content: {
            /** @example aGkK */
            contentBase64: string;
            /** @example 0644 */
            mode: string;
            /** @example /workspace/a.txt */
            path: string;
            /**
             * Format: int64
             * @description Of the whole file.
             * @example 3
             */
            size: number;
            /** @description The file goes on behind this. */
            truncated: boolean;
        };
        ContextRequest: {
            /**
             * @description Where the kernel begins. Relative paths begin at /workspace, which is also the default.
             * @example data
             */
            cwd?: string;
            /** @description Added to the session's variables. */
            env?: {
                [key: string]: string;
            };
            /**
             * @description The language of a kernel that the image has, or the kernel's name.
             * @example python
             */
            language: string;
            /**
             * @description A name to use in the place of its id, unique among the session's contexts that run.
             * @example analysis
             */
            name?: string;
        };
        CopyRequest: {
            /** @example /workspace/a.txt */
            from: string;
            /** @description Replace files that are there. */
            overwrite?: boolean;
            /** @description Needed for a directory. */
            recursive?: boolean;
            /**
             * @description The new path itself, not a directory to copy into.
             * @example /workspace/b.txt
             */
            to: string;
        };
        CreateRequest: {
            /** @description Whether a request that needs the session's programs wakes it when it is paused, as it does by default. */
            autoResume?: boolean;
            /**
             * Format: double
             * @description Cores; 1.5 is one and a half. 0 is the default, here as in the others.
             * @example 1
             */
            cpu?: number;
            /**
             * Format: int64
             * @description All that the sandbox writes, but for a workspace that outlives it.
             * @example 2048
             */
            diskMb?: number;
            /**
             * @description What makes the sandbox: one of the drivers at /v1/info. Only the first of them has workspaces.
             * @example native
             */
            driver?: string;
            /** @description Variables for every process. Never shown again. */
            env?: {
                [key: string]: string;
            };
            /**
             * @description What the calls for files reach: /workspace, or any path in the sandbox, like /tmp and home directories. Without it what the configuration says for this key.
             * @example sandbox
             * @enum {string}
             */
            fileScope?: "workspace" | "sandbox";
            /** @example sandbox */
            hostname?: string;
            /**
             * Format: int64
             * @description Less than ttl_seconds, or as much to destroy. To pause or stop, 300 if it is not given, or half of ttl_seconds if that is less.
             * @example 300
             */
            idleTimeoutSeconds?: number;
            /**
             * @description The name of an image of this daemon.
             * @example base
             */
            image?: string;
            /** @description The client's own notes. */
            labels?: {
                [key: string]: string;
            };
            /**
             * Format: int64
             * @description Age at which the session expires, active, stopped or not.
             * @example 86400
             */
            lifetimeSeconds?: number;
            /** @description The same four as at the top, for those who like them together. Not both. */
            limits?: components["schemas"]["Limits"];
            /**
             * Format: int64
             * @example 512
             */
            memoryMb?: number;
            /**
             * @description What the session is called: unique among the key's sessions that have not ended, 409 otherwise. 1 to 64 of a-z, A-Z, 0-9, '.', '_' and '-', begun by a letter or digit.
             * @example build-7
             */
            name?: string;
            /** @description What the sandbox may reach. Without it what the configuration says for the image, which is nothing unless the operator has set it otherwise. */
            network?: components["schemas"]["NetworkRequest"];
            /**
             * @description none, allow, internet or full: short for a network that has only this mode. Beside network it has to be the same.
             * @example none
             */
            networkMode?: string;
            /**
             * @description What happens after ttl_seconds: the session is stopped and keeps its files, or is destroyed. Without it what the configuration says, which is stop for a session with a name, and destroy for others, unless the operator has set one. Where a stop would not keep the files it is destroy.
             * @example stop
             * @enum {string}
             */
            onExpiry?: "stop" | "destroy";
            /**
             * @description What happens when nothing has used the session for idle_timeout_seconds.
             * @example pause
             * @enum {string}
             */
            onIdle?: "pause" | "stop" | "destroy";
            /**
             * Format: int64
             * @description Processes and threads.
             * @example 256
             */
            pids?: number;
            /** @description Only /workspace, /tmp and the like can be written. */
            readonlyRootfs?: boolean;
            /**
             * @description A snapshot, by its id, the beginning of that or its name, with whose files the session begins, and with whose image unless there is one in the request. With changes to the root (scope sandbox) it fits no other image. A workspace_id beside it must be new.
             * @example k5n6p7r2s3t4u5f5q2bz7lq4m3
             */
            restoreSnapshotId?: string;
            /**
             * Format: int64
             * @description Idle time after which on_expiry happens, also when the session is paused. A stopped session is kept for stopped_retention_seconds.
             * @example 1800
             */
            ttlSeconds?: number;
            /**
             * @description A workspace that outlives the session, at /workspace. It is made if this key has none of that id. Without it /workspace ends with the session, unless the daemon is configured otherwise.
             * @example project
             */
            workspaceId?: string;
        };
        Defaults: {
            /**
             * Format: int64
             * @description Of a session to be paused or stopped.
             * @example 300
             */
            idleTimeoutSeconds: number;
            /** @example base */
            image: string;
            limits: components["schemas"]["Limits"];
            /** @example none */
            networkMode: string;
            /**
             * @description After ttl_seconds. named is stop for a session that has a name, and destroy for others.
             * @example named
             * @enum {string}
             */
            onExpiry?: "named" | "stop" | "destroy";
            readonlyRootfs: boolean;
            /**
             * Format: int64
             * @description Of a stopped session, for the owner of the request's key.
             * @example 604800
             */
            stoppedRetentionSeconds: number;
            /**
             * Format: int64
             * @description Of a command.
             * @example 60000
             */
            timeoutMs: number;
            /**
             * Format: int64
             * @example 1800
             */
            ttlSeconds: number;
        };
        DeleteRequest: {
            /**
             * @description Absolute, or from /workspace. A link is removed itself.
             * @example /workspace/data
             */
            path: string;
            /** @description Needed for a directory that is not empty. */
            recursive?: boolean;
        };
        EditRequest: {
            /**
             * Format: int64
             * @description How often the text must be there. With any other number, 422 and nothing changes. Without it: once or more.
             * @example 1
             */
            count?: number;
            /**
             * @description What takes its place; at most 1 MiB.
             * @example goodbye
             */
            new: string;
            /**
             * @description The text as it is in the file, exactly; at most 1 MiB.
             * @example hello
             */
            old: string;
            /**
             * @description Absolute, or from /workspace.
             * @example /workspace/main.go
             */
            path: string;
        };
        EditResponse: {
            /**
             * @description The change, as a unified diff.
             * @example @@ -1 +1 @@
             *     -hello
             *     +goodbye
             */
            diff: string;
            /** @description The change is larger than the diff, which has at most 256 KiB. */
            diffTruncated: boolean;
            /**
             * Format: int64
             * @example 1
             */
            replaced: number;
        };
        Entry: {
            /**
             * Format: int32
             * @example 0
             */
            gid: number;
            /** @example 0644 */
            mode: string;
            /** Format: date-time */
            modifiedAt: string;
            /**
             * @description Relative to the directory. Bytes that are not UTF-8 are written as \xHH, in all paths of requests and answers.
             * @example a.txt
             */
            name: string;
            /**
             * Format: int64
             * @example 3
             */
            size: number;
            /** @description Of a symlink. */
            target?: string;
            /** @enum {string} */
            type: "file" | "dir" | "symlink" | "fifo" | "socket" | "device";
            /**
             * Format: int32
             * @description The owner, as the sandbox sees it.
             * @example 0
             */
            uid: number;
        };
        ErrorBody: {
            /**
             * @description What is wrong, for programs. The values stay.
             * @example invalid_argument
             */
            code: string;
            /**
             * @description What is wrong and what to do about it, for people.
             * @example ttl_seconds must be at least 1
             */
            error: string;
            /**
             * @description The request field or parameter at fault, if one is.
             * @example ttl_seconds
             */
            field?: string;
            /** @description Of reason quota_exceeded: which. */
            quota?: components["schemas"]["QuotaBody"];
            /**
             * @description More than code says, for programs, where there is more to tell apart: of files and programs in the sandbox, and of what was not found. The values stay.
             * @example no_such_file
             */
            reason?: string;
            /**
             * @description Names this request in the daemon's log; also in the X-Request-Id header. Left out of 401, which is the same for everybody.
             * @example 5YXTKD3NPQZJH3LYXAFXCLMPGE
             */
            requestId?: string;
        };
        Event: {
            /** @description Of account.changed. */
            account?: components["schemas"]["EventAccount"];
            /**
             * @description Of session.state and session.ended: the status before.
             * @example running
             */
            before?: string;
            /** @description Of workspace.deleted and snapshot.deleted. */
            deletedId?: string;
            /** @description Of exec.started and exec.finished. */
            exec?: components["schemas"]["ExecRecord"];
            /** @description Of exec.burst. */
            execBurst?: components["schemas"]["ExecBurst"];
            /**
             * @description Its place, for Last-Event-ID and since; the id of the server-sent event too.
             * @example mzxk2q9c1-2400871
             */
            id: string;
            /** @description Of image.job. */
            imageJob?: components["schemas"]["EventImageJob"];
            /** @description Of network.decision. */
            network?: components["schemas"]["NetworkEvent"];
            /** @description Of network.burst. */
            networkBurst?: components["schemas"]["NetworkBurst"];
            /**
             * @description Whose it is. Absent for what is the daemon's.
             * @example alice
             */
            owner?: string;
            /** @description Of pool.changed. */
            pool?: components["schemas"]["PoolStatus"];
            /**
             * @description Of gap: restarted, the daemon since the id; expired, the id is older than what is kept; slow, the client reads more slowly than events come.
             * @example expired
             */
            reason?: string;
            /**
             * @description Of gap: what may have changed meanwhile.
             * @example [
             *       "session",
             *       "exec"
             *     ]
             */
            reload?: string[];
            /** @description Of session events: how it is now. */
            session?: components["schemas"]["Session"];
            /**
             * @description The session that it is about.
             * @example f5q2bz7lq4m3k5n6p7r2s3t4u5
             */
            sessionId?: string;
            /** @description Of snapshot.created. */
            snapshot?: components["schemas"]["Snapshot"];
            /** Format: date-time */
            time: string;
            /**
             * @description What happened; the name of the server-sent event too.
             * @example session.state
             */
            type: string;
            /** @description Of workspace.changed. */
            workspace?: components["schemas"]["EventWorkspace"];
        };
        EventAccount: {
            /**
             * @description The key that was made or revoked; absent where the user was made, changed or deleted.
             * @example k5n6p7r2s3t4u5f5q2bz7lq4m3
             */
            keyId?: string;
            /** @example alice */
            user: string;
        };
        EventImageJob: {
            /** @description Why the job failed. */
            error?: string;
            /** @example k5n6p7r2s3t4u5f5q2bz7lq4m3 */
            id: string;
            /** @example pull */
            kind: string;
            /**
             * @description Of the image.
             * @example python:3.12-slim
             */
            name: string;
            progress: components["schemas"]["Progress"];
            /** @example running */
            status: string;
        };
        EventWorkspace: {
            /** Format: date-time */
            createdAt: string;
            /** @example project */
            id: string;
            labels?: {
                [key: string]: string;
            };
            /** Format: date-time */
            lastUsedAt: string;
            /**
             * Format: int64
             * @description What its files may take.
             * @example 1024
             */
            sizeMb: number;
        };
        ExecBurst: {
            /**
             * Format: int64
             * @example 118
             */
            finished: number;
            /**
             * Format: int64
             * @example 120
             */
            started: number;
        };
        ExecDetail: {
            /** @description When it has ended; see exec. */
            cause?: string;
            /**
             * @description Its first 256 bytes.
             * @example make test
             */
            cmd: string;
            /** @example /workspace */
            cwd: string;
            /** @description As in exec. */
            diskFull?: boolean;
            /**
             * Format: int64
             * @description How much is missing.
             */
            droppedBytes: number;
            /**
             * Format: int64
             * @example 12
             */
            durationMs: number;
            /** @example f5q2bz7lq4m3k5n6p7r2s3t4u5 */
            execId: string;
            /**
             * Format: int64
             * @description When it has ended.
             */
            exitCode?: number;
            /**
             * @description A command of a shell, or a process of its own.
             * @enum {string}
             */
            kind: "shell" | "process";
            /**
             * @description Standard output and standard error together.
             * @example hi
             */
            output: string;
            outputBase64?: string;
            /**
             * Format: int64
             * @description All that it has written until now.
             * @example 3
             */
            outputBytes: number;
            /**
             * @description base64: the output is not valid UTF-8. output_base64 has its bytes, and output has U+FFFD for what is wrong.
             * @enum {string}
             */
            outputEncoding: "utf-8" | "base64";
            /** @description Where all of the output is, if the request asked for it. */
            outputFile?: string;
            /** @description As in exec. */
            outputFileError?: string;
            /**
             * Format: int64
             * @description Of a process, inside the sandbox.
             * @example 42
             */
            pid?: number;
            /**
             * @description Empty for a process.
             * @example default
             */
            shell: string;
            shellRestarted: boolean;
            /** Format: int64 */
            signal?: number;
            /** Format: date-time */
            startedAt?: string;
            /**
             * @example running
             * @enum {string}
             */
            state: "queued" | "running" | "ended";
            timedOut: boolean;
            /** @description Something is missing from output. A line in it says where and how much, but for what a control string without an end hides. */
            truncated: boolean;
            /** @description The process has a terminal. */
            tty?: boolean;
            /** @description Of a process. */
            usage?: components["schemas"]["Usage"];
            /** @description Of a queued command: the one that its shell runs. */
            waitsFor?: components["schemas"]["WaitsFor"];
        };
        ExecRecord: {
            /** @description When it has ended; see exec. */
            cause?: string;
            /**
             * @description Its first 256 bytes.
             * @example make test
             */
            cmd: string;
            /** @example /workspace */
            cwd: string;
            /** @description As in exec. */
            diskFull?: boolean;
            /**
             * Format: int64
             * @example 12
             */
            durationMs: number;
            /** @example f5q2bz7lq4m3k5n6p7r2s3t4u5 */
            execId: string;
            /**
             * Format: int64
             * @description When it has ended.
             */
            exitCode?: number;
            /**
             * @description A command of a shell, or a process of its own.
             * @enum {string}
             */
            kind: "shell" | "process";
            /**
             * Format: int64
             * @description All that it has written until now.
             * @example 3
             */
            outputBytes: number;
            /** @description Where all of the output is, if the request asked for it. */
            outputFile?: string;
            /** @description As in exec. */
            outputFileError?: string;
            /**
             * Format: int64
             * @description Of a process, inside the sandbox.
             * @example 42
             */
            pid?: number;
            /**
             * @description Empty for a process.
             * @example default
             */
            shell: string;
            shellRestarted: boolean;
            /** Format: int64 */
            signal?: number;
            /** Format: date-time */
            startedAt?: string;
            /**
             * @example running
             * @enum {string}
             */
            state: "queued" | "running" | "ended";
            timedOut: boolean;
            /** @description The process has a terminal. */
            tty?: boolean;
            /** @description Of a process. */
            usage?: components["schemas"]["Usage"];
            /** @description Of a queued command: the one that its shell runs. */
            waitsFor?: components["schemas"]["WaitsFor"];
        };
        ExecRequest: {
            /**
             * @description Shell code of at most 1 MiB, without NUL.
             * @example echo hi
             */
            cmd: string;
            /**
             * @description Where the shell goes before the command, and stays as after cd; relative paths begin where it is. If it cannot go there the command does not run, and the answer has the shell's message and exit code.
             * @example src
             */
            cwd?: string;
            /** @description Variables for this command alone; at most 1 MiB. */
            env?: {
                [key: string]: string;
            };
            /**
             * @description The command's id, chosen at random by a client that wants to cancel the command before an answer tells it. One that the session knows is a 409. Without it the daemon chooses one.
             * @example f5q2bz7lq4m3k5n6p7r2s3t4u5
             */
            execId?: string;
            /**
             * @description What becomes of the command if the client goes away before its end. Without it, continue.
             * @example kill
             * @enum {string}
             */
            onDisconnect?: "continue" | "kill";
            /** @description Leave stdin open behind that, for stdin requests. */
            openStdin?: boolean;
            /**
             * @description A file inside the sandbox that gets all of the output, beside what is kept for the answer. Made or replaced when the command starts.
             * @example logs/build.txt
             */
            outputFile?: string;
            /** @description Leave the output as it is. Without it terminal control sequences are taken out and all of \r\n, \r and \n become \n. */
            rawOutput?: boolean;
            /**
             * @description Another shell of the session, by name. Shells run beside each other. Without it, or as default, it is the one that every session has.
             * @example build
             */
            shell?: string;
            /** @description What the command reads; without it, nothing. */
            stdin?: string;
            /**
             * Format: int64
             * @description From its start. The default, which 0 is too, and the maximum are at /v1/info.
             * @example 30000
             */
            timeoutMs?: number;
        };
        ExecResponse: {
            /**
             * @description exited: by itself. signaled: by a signal from inside. timeout: its time was up and all its processes were killed. oom_killed: the memory limit. shell_exited: it ended the shell. canceled: by cancel. sandbox_gone: the sandbox ended under it.
             * @enum {string}
             */
            cause: "exited" | "signaled" | "timeout" | "oom_killed" | "shell_exited" | "canceled" | "sandbox_gone";
            /**
             * @description Of the shell, after the command.
             * @example /workspace
             */
            cwd: string;
            /** @description There, and true, if the exit code is not 0 and the session's disk or workspace had no room left when the command ended: at most 2 MiB, or no file. It need not be why. */
            diskFull?: boolean;
            /**
             * Format: int64
             * @description How much is missing.
             */
            droppedBytes: number;
            /**
             * Format: int64
             * @example 12
             */
            durationMs: number;
            /** @example f5q2bz7lq4m3k5n6p7r2s3t4u5 */
            execId: string;
            /**
             * Format: int64
             * @description 128 and the signal's number if a signal ended it, 124 if its time was up.
             * @example 0
             */
            exitCode: number;
            /** @description What the session's network refused while the command ran, by whichever program: the newest ten. */
            networkDenied?: components["schemas"]["NetworkDenial"][];
            /**
             * @description Standard output and standard error together.
             * @example hi
             */
            output: string;
            outputBase64?: string;
            /**
             * Format: int64
             * @description All that the command wrote, before anything was taken out.
             * @example 3
             */
            outputBytes: number;
            /**
             * @description base64: the output is not valid UTF-8. output_base64 has its bytes, and output has U+FFFD for what is wrong.
             * @enum {string}
             */
            outputEncoding: "utf-8" | "base64";
            /** @description Where all of the output is, if the request asked for it. */
            outputFile?: string;
            /**
             * @description Why that has only the beginning of the output, as when the disk was full. The command was not told.
             * @example no space left in the sandbox: the file has only the beginning
             */
            outputFileError?: string;
            /** @description The command ran in a new shell, because the one before had ended. Directory and exported variables came along as far as known. */
            shellRestarted: boolean;
            /**
             * Format: int64
             * @description The number of the signal that ended it.
             * @example 9
             */
            signal?: number;
            /** @description The same as cause timeout. */
            timedOut: boolean;
            /** @description Something is missing from output. A line in it says where and how much, but for what a control string without an end hides. */
            truncated: boolean;
            /** @description Of a process. */
            usage?: components["schemas"]["Usage"];
        };
        ForkRequest: {
            /** @description Whether a request that needs the session's programs wakes it when it is paused, as it does by default. */
            autoResume?: boolean;
            /**
             * Format: int64
             * @description How many; 1 if it is not given.
             * @example 3
             */
            count?: number;
            /**
             * Format: double
             * @description Cores; 1.5 is one and a half. 0 is the default, here as in the others.
             * @example 1
             */
            cpu?: number;
            /**
             * Format: int64
             * @description All that the sandbox writes, but for a workspace that outlives it.
             * @example 2048
             */
            diskMb?: number;
            /** @description Instead of the session's. Never shown again. */
            env?: {
                [key: string]: string;
            };
            /**
             * @description Of all forks. Without it each has the session's with the beginning of its own id.
             * @example branch
             */
            hostname?: string;
            /**
             * Format: int64
             * @description Less than ttl_seconds, or as much to destroy. To pause or stop, 300 if it is not given, or half of ttl_seconds if that is less.
             * @example 300
             */
            idleTimeoutSeconds?: number;
            /** @description Instead of the session's. */
            labels?: {
                [key: string]: string;
            };
            /**
             * Format: int64
             * @description Age at which the session expires, active, stopped or not.
             * @example 86400
             */
            lifetimeSeconds?: number;
            /**
             * Format: int64
             * @example 512
             */
            memoryMb?: number;
            /**
             * @description What happens after ttl_seconds: the session is stopped and keeps its files, or is destroyed. Without it what the configuration says, which is stop for a session with a name, and destroy for others, unless the operator has set one. Where a stop would not keep the files it is destroy.
             * @example stop
             * @enum {string}
             */
            onExpiry?: "stop" | "destroy";
            /**
             * @description What happens when nothing has used the session for idle_timeout_seconds.
             * @example pause
             * @enum {string}
             */
            onIdle?: "pause" | "stop" | "destroy";
            /**
             * Format: int64
             * @description Processes and threads.
             * @example 256
             */
            pids?: number;
            /**
             * Format: int64
             * @description Idle time after which on_expiry happens, also when the session is paused. A stopped session is kept for stopped_retention_seconds.
             * @example 1800
             */
            ttlSeconds?: number;
        };
        Forked: {
            /** @description The host had to copy the session's files, which took time and space. See disk.pool_mb in the configuration for forks without that. In the answer to a repeated request it is false. */
            copied: boolean;
            /**
             * Format: int64
             * @description Contexts of the session that run. Forks have its files, and neither these nor their variables.
             * @example 1
             */
            droppedContexts: number;
            sessions: components["schemas"]["Session"][];
        };
        Found: {
            entries: components["schemas"]["Entry"][];
            /** @description There are more: give a narrower pattern or path. */
            truncated: boolean;
        };
        Health: {
            /**
             * @description Of readyz: see info.
             * @example [
             *       "docker"
             *     ]
             */
            absentDrivers?: string[];
            /**
             * @description disk_full, of readyz: the disk of the daemon's data is full. What is there can be used and removed, and no session be made.
             * @example ok
             * @enum {string}
             */
            status: "ok" | "disk_full";
        };
        HostFinding: {
            /**
             * @description A command that mends it, as root on the host; absent where none does. mend says what else there is to know.
             * @example sysctl -w kernel.pid_max=16000
             */
            command?: string;
            /** @description Of fsck: what should be there. */
            expected?: string;
            /**
             * @description What there is.
             * @example kernel.pid_max is 4096, for up to 1000 sessions
             */
            found: string;
            /**
             * @description What to do.
             * @example sysctl -w kernel.pid_max=16000 and write kernel.pid_max=16000 into /etc/sysctl.d/sandkasten.conf, or lower max_sessions
             */
            mend?: string;
            /**
             * @description warn: it works, but weaker or slower than it could, or the daemon mends it itself. fail: something is lost, or cannot be used.
             * @example warn
             * @enum {string}
             */
            severity: "warn" | "fail";
            /**
             * @description doctor: the host is not as it should be. fsck: the database and what there is differ.
             * @example doctor
             * @enum {string}
             */
            source: "doctor" | "fsck";
            /**
             * @description The doctor's check, or the kind of thing.
             * @example processes
             */
            what: string;
            /** @description Of fsck: the thing's path, process or id. */
            where?: string;
        };
        HostFindings: {
            /**
             * Format: date-time
             * @description When it was looked for; a few seconds ago at most.
             */
            at: string;
            /** @description The gravest first; none where all is well. */
            findings: components["schemas"]["HostFinding"][];
        };
        HostHistory: {
            /** @description Oldest first. Where the daemon did not run there is a hole. */
            samples: components["schemas"]["HostSample"][];
            /**
             * Format: int64
             * @example 10
             */
            stepSeconds: number;
        };
        HostSample: {
            /** Format: date-time */
            at: string;
            /**
             * Format: int64
             * @description Processors of the host.
             * @example 8
             */
            cpuLimit: number;
            /**
             * Format: double
             * @description Processors that all programs of the host had, on average over the interval.
             * @example 1.25
             */
            cpuUsed: number;
            /**
             * Format: int64
             * @description Creates that the daemon, its driver or its host failed at. Those that were refused for what they asked for do not count.
             */
            createErrors: number;
            /**
             * Format: double
             * @description Half of the creates took at most so long, in milliseconds; absent without any. Like the other percentiles at most 4.5 % off; 9 % when durations since the daemon's start are spread over more than three orders of magnitude.
             * @example 9.6
             */
            createP50Ms?: number;
            /**
             * Format: double
             * @example 14.8
             */
            createP90Ms?: number;
            /**
             * Format: double
             * @example 41.9
             */
            createP99Ms?: number;
            /**
             * Format: int64
             * @description Sessions made in the interval.
             * @example 4
             */
            creates: number;
            /**
             * Format: int64
             * @description Written on the file system of data_dir, by whomever.
             * @example 53687091200
             */
            diskBytes: number;
            /**
             * Format: int64
             * @description Its size.
             * @example 214748364800
             */
            diskLimit: number;
            /**
             * Format: int64
             * @description Written in the pool of disks, with disk.pool_mb.
             */
            diskPoolBytes?: number;
            /**
             * Format: int64
             * @description Its size; absent without a pool.
             */
            diskPoolLimit?: number;
            /**
             * Format: int64
             * @description Those that were ended for want of memory.
             */
            execOomKills: number;
            /**
             * Format: double
             * @description Half of the commands ran at most so long, in milliseconds; absent without any.
             * @example 38.3
             */
            execP50Ms?: number;
            /**
             * Format: double
             * @example 420
             */
            execP90Ms?: number;
            /**
             * Format: double
             * @example 5120
             */
            execP99Ms?: number;
            /**
             * Format: int64
             * @description Commands that ended in the interval, without background ones.
             * @example 31
             */
            execs: number;
            /**
             * Format: int64
             * @description That nobody else can have. With a step of 60 the most of the minute.
             * @example 8589934592
             */
            memoryBytes: number;
            /**
             * Format: int64
             * @description Of the host.
             * @example 34359738368
             */
            memoryLimit: number;
            /**
             * Format: int64
             * @description Sandboxes that were ready for sessions to come.
             * @example 3
             */
            poolReady: number;
            /**
             * Format: int64
             * @description Sandboxes that were to be ready.
             * @example 3
             */
            poolWanted: number;
            /**
             * Format: int64
             * @description Those that the daemon failed at: with a status of 500 or more, but for 501, 503 and 507.
             */
            requestErrors: number;
            /**
             * Format: int64
             * @description Answered in the interval.
             * @example 64
             */
            requests: number;
            /**
             * Format: double
             * @description Since the sample before: the interval of what was done.
             * @example 10
             */
            seconds: number;
            /** @description How many there were by state, those of all owners. */
            sessions: {
                [key: string]: number;
            };
            /**
             * Format: int64
             * @description How many may be alive at once; 0 is no limit.
             * @example 100
             */
            sessionsLimit: number;
        };
        Image: {
            /**
             * @description Whether sessions may use it (allowed_images). Only the daemon's own key sees others.
             * @example true
             */
            allowed: boolean;
            /**
             * Format: date-time
             * @description When it was stored.
             */
            createdAt: string;
            /**
             * @description Of its layers, environment, user and working directory; no registry's.
             * @example sha256:5f70bf18a086007016e948b04aed3b82103a36bea41755b6cddfaf10ace3c6ef
             */
            digest: string;
            /**
             * @description NAME=value, sorted: what a session begins with.
             * @example [
             *       "HOME=/root"
             *     ]
             */
            env: string[];
            /**
             * Format: int64
             * @description Files, directories and links in it.
             * @example 9800
             */
            files: number;
            /**
             * @description The digest of each layer, top first.
             * @example [
             *       "sha256:5f70bf18a086007016e948b04aed3b82103a36bea41755b6cddfaf10ace3c6ef"
             *     ]
             */
            layers: string[];
            /**
             * @description Sorted; empty if newer images took them.
             * @example [
             *       "python"
             *     ]
             */
            names: string[];
            /** @description The hosts that its package clients download from, by group: what a group like pip means in a network policy. Absent until they were asked. */
            networkGroups?: {
                [key: string]: string[] | null;
            };
            /** @description The digest of the recipe that made it. */
            recipe?: string;
            /** @example /bin/bash */
            shell: string;
            /**
             * Format: int64
             * @description Of its files, layers shared with other images included.
             * @example 314572800
             */
            sizeBytes: number;
            /**
             * @description Where it came from, for people.
             * @example Debian bookworm
             */
            source?: string;
            user?: string;
            /** @description What of its archive was left out or changed. */
            warnings?: string[];
            /** @example /workspace */
            workingDir?: string;
        };
        ImageJob: {
            /**
             * @description The code of that error.
             * @example unavailable
             */
            code?: string;
            /** Format: date-time */
            createdAt: string;
            /** Format: date-time */
            endedAt?: string;
            /** @description Why the job failed. */
            error?: string;
            /**
             * @description 26 characters of a-z and 2-7.
             * @example k5n6p7r2s3t4u5f5q2bz7lq4m3
             */
            id: string;
            /** @description When the job is done. */
            image?: components["schemas"]["Image"];
            /**
             * @example pull
             * @enum {string}
             */
            kind: "pull" | "build" | "commit";
            /**
             * @description Of the image.
             * @example python:3.12-slim
             */
            name: string;
            progress: components["schemas"]["Progress"];
            /**
             * @description The first two go on; the others are final.
             * @example running
             * @enum {string}
             */
            status: "queued" | "running" | "done" | "failed" | "canceled";
        };
        ImageJobs: {
            jobs: components["schemas"]["ImageJob"][];
        };
        Images: {
            images: components["schemas"]["Image"][];
        };
        Info: {
            /**
             * @description Those of drivers that do not answer now, as a Docker engine that is down. Their sessions keep their state, and what needs a sandbox is a 503.
             * @example [
             *       "docker"
             *     ]
             */
            absentDrivers?: string[];
            /** @example v1 */
            api: string;
            defaults: components["schemas"]["Defaults"];
            /**
             * @description Of a session that asks for none. It has the workspaces.
             * @example native
             */
            driver: string;
            /**
             * @description All that a session may ask for.
             * @example [
             *       "native",
             *       "docker"
             *     ]
             */
            drivers: string[];
            limits: components["schemas"]["Maxima"];
            /** @example 0.1.0 */
            version: string;
            /** @description Absent if no workspace outlives its session here. */
            workspaces?: components["schemas"]["WorkspaceInfo"];
        };
        Inspection: {
            /**
             * @description The admin; admin is the daemon's own key.
             * @example root
             */
            by: string;
            /**
             * Format: date-time
             * @description On that day of UTC. The same on another day is an entry of its own.
             */
            firstAt: string;
            /**
             * Format: date-time
             * @description To the minute.
             */
            lastAt: string;
            /** @example f5q2bz7lq4m3k5n6p7r2s3t4u5 */
            sessionId?: string;
            /**
             * @description What was looked into, or made in the caller's name: a session, a key, a password, an e-mail address.
             * @example a session
             */
            what: string;
        };
        Inspections: {
            /** @description The newest first, 1000 at most. */
            inspections: components["schemas"]["Inspection"][];
        };
        Job: {
            /**
             * @description The program's name for itself, of at most 15 bytes.
             * @example sleep
             */
            command: string;
            /**
             * Format: int64
             * @description Inside the sandbox.
             * @example 12
             */
            pid: number;
            /** @description Of it and all that it started. */
            usage: components["schemas"]["Usage"];
        };
        Key: {
            /** Format: date-time */
            createdAt: string;
            /** Format: date-time */
            expiresAt?: string;
            /** @example f5q2bz7lq4m3k5n6p7r2s3t4u5 */
            id: string;
            /** Format: date-time */
            lastUsedAt?: string;
            /**
             * @description For people.
             * @example laptop
             */
            name?: string;
            /**
             * @description The key that made it, with which it ends.
             * @example k5n6p7r2s3t4u5f5q2bz7lq4m3
             */
            parentId?: string;
            /** Format: date-time */
            revokedAt?: string;
            /**
             * @example run
             * @enum {string}
             */
            scope: "read" | "run" | "admin";
            /** @example alice */
            user: string;
        };
        KeyRequest: {
            /**
             * @description For people.
             * @example laptop
             */
            name?: string;
            /**
             * @description read looks at things, run uses and makes them, admin has the rights of the user's role. run if it is left out.
             * @example run
             * @enum {string}
             */
            scope?: "read" | "run" | "admin";
            /**
             * Format: int64
             * @description When it ends. If it is left out: never, or with the key that makes it.
             * @example 86400
             */
            ttlSeconds?: number;
            /**
             * @description Whose: the user of the request's key if it is left out. Others' keys are made by admins.
             * @example alice
             */
            user?: string;
        };
        Keys: {
            keys: components["schemas"]["Key"][];
        };
        Limits: {
            /**
             * Format: double
             * @description Cores; 1.5 is one and a half. 0 is the default, here as in the others.
             * @example 1
             */
            cpu?: number;
            /**
             * Format: int64
             * @description All that the sandbox writes, but for a workspace that outlives it.
             * @example 2048
             */
            diskMb?: number;
            /**
             * Format: int64
             * @example 512
             */
            memoryMb?: number;
            /**
             * Format: int64
             * @description Processes and threads.
             * @example 256
             */
            pids?: number;
        };
        List: {
            entries: components["schemas"]["Entry"][];
            /** @description Send it as cursor, with the same path and depth. */
            nextCursor?: string;
            /** @example /workspace */
            path: string;
            /** @description There are more entries; next_cursor leads to them. */
            truncated: boolean;
        };
        Match: {
            after?: string[] | null;
            before?: string[] | null;
            /**
             * Format: int64
             * @description Of the first match in the line, in bytes, from 1.
             * @example 6
             */
            column: number;
            /**
             * Format: int64
             * @description From 1.
             * @example 3
             */
            line: number;
            /**
             * @description Relative to the directory; empty if a file was searched.
             * @example a.go
             */
            path: string;
            /**
             * @description The line, cut if it is long.
             * @example func main() {
             */
            text: string;
        };
        Matches: {
            /**
             * Format: int64
             * @description Of these, passed over since they are no text: nothing is said of what they hold.
             */
            binaryFiles: number;
            /**
             * Format: int64
             * @description That were read.
             * @example 12
             */
            files: number;
            /** @description By path and line. */
            matches: components["schemas"]["Match"][];
            /** @description There are more: give a narrower pattern, include or path. */
            truncated: boolean;
        };
        Maxima: {
            /**
             * Format: int64
             * @example 1048576
             */
            commandBytes: number;
            /**
             * Format: int64
             * @description Of one file written.
             * @example 1073741824
             */
            fileBytes: number;
            /**
             * Format: int64
             * @description Of a session, however active; absent if there is no maximum.
             */
            lifetimeSeconds?: number;
            limits: components["schemas"]["Limits"];
            /**
             * Format: int64
             * @description In one answer.
             * @example 1048576
             */
            outputBytes: number;
            /**
             * Format: int64
             * @description In one JSON answer of fs/read.
             * @example 67108864
             */
            readBytes: number;
            /**
             * Format: int64
             * @description At once; absent if there is no maximum.
             */
            sessions?: number;
            /**
             * Format: int64
             * @description At once, of the owner of the request's key; absent if there is no maximum beside sessions.
             */
            sessionsPerKey?: number;
            /**
             * Format: int64
             * @example 600000
             */
            timeoutMs: number;
            /**
             * Format: int64
             * @example 86400
             */
            ttlSeconds: number;
            /**
             * Format: int64
             * @description In one request of fs/upload.
             * @example 1073741824
             */
            uploadBytes: number;
            /**
             * Format: int64
             * @description In one request of fs/write.
             * @example 4194304
             */
            writeBytes: number;
        };
        Me: {
            /** @description The key sees and changes what is everybody's. */
            admin: boolean;
            /** @description Left out for a key of the configuration, and for who has signed in. */
            key?: components["schemas"]["Key"];
            /**
             * @description Whom sessions and everything else belong to that are made with this key.
             * @example alice
             */
            owner: string;
            /** @description The key only looks: whatever changes something is refused. */
            readOnly?: boolean;
            /** @description Left out for an owner of the configuration. */
            user?: components["schemas"]["User"];
        };
        MkdirRequest: {
            /**
             * @description Without it 0755.
             * @example 0755
             */
            mode?: string;
            /** @description Make those above it, too, and do not mind if it is there. */
            parents?: boolean;
            /**
             * @description Absolute, or from /workspace.
             * @example /workspace/data
             */
            path: string;
        };
        MoveRequest: {
            /** @example /workspace/a.txt */
            from: string;
            /** @description Replace what is there: a file, a link or an empty directory. */
            overwrite?: boolean;
            /**
             * @description The new path itself, not a directory to move into.
             * @example /workspace/b.txt
             */
            to: string;
        };
        Network: {
            /**
             * @description Of mode allow: host names, one with a leading wildcard label like *.example.org, addresses, CIDRs, each with :port or :port-port if wanted, or groups like @pip. Names without a port are for the ports 80 and 443.
             * @example [
             *       "@pip",
             *       "api.example.org"
             *     ]
             */
            allow?: string[];
            /**
             * Format: int64
             * @description New ones; 0 is 100, with bursts of 256.
             */
            connectionsPerSecond?: number;
            /** @description The same entries, for all ports where they have none. Deny beats allow. */
            deny?: string[];
            /**
             * Format: int64
             * @description Connections and flows of UDP at once; 0 is 256.
             */
            maxConnections?: number;
            /**
             * Format: int64
             * @description MiB in both directions together since the session's last start, or the daemon's; 0 is no limit.
             */
            maxMb?: number;
            /**
             * Format: int64
             * @description Megabits per second in each direction, of all connections together; 0 is no limit.
             * @example 100
             */
            maxMbit?: number;
            /**
             * @description none: loopback only. allow: only what the list names. internet: everything public. full: private addresses too, where the operator allows it. The host's own addresses and metadata services are never reached.
             * @example allow
             * @enum {string}
             */
            mode: "none" | "allow" | "internet" | "full";
            /** @description There, and false, if the daemon does not carry the sandbox's connections: it is in a network of its container engine, which decides what it reaches. */
            relay?: boolean;
            secrets?: components["schemas"]["NetworkSecret"][];
        };
        NetworkAllowRequest: {
            /**
             * @description As in allow.
             * @example [
             *       "files.example.org"
             *     ]
             */
            entries: string[];
        };
        NetworkBurst: {
            /**
             * Format: int64
             * @example 300
             */
            allowed: number;
            /**
             * Format: int64
             * @example 2
             */
            denied: number;
        };
        NetworkDenial: {
            /** @example 198.51.100.7 */
            address?: string;
            /**
             * @description What opens it once it is in the list of allow. Left out where no entry does.
             * @example pypi.example.org
             */
            entry?: string;
            /** @example pypi.example.org */
            name?: string;
            /**
             * Format: int64
             * @example 443
             */
            port?: number;
            /** @example no entry of allow names pypi.example.org */
            why: string;
        };
        NetworkEvent: {
            /** @example 198.51.100.7 */
            address?: string;
            allowed: boolean;
            /**
             * Format: int64
             * @description Of a connection that ended.
             */
            bytesReceived?: number;
            /**
             * Format: int64
             * @description Of a connection that ended.
             */
            bytesSent?: number;
            /**
             * Format: int64
             * @description How often it happened in a row.
             * @example 1
             */
            count: number;
            /**
             * @description Of a refusal: what opens it once it is in the list of allow. Left out where no entry does, as for a limit or an entry of deny.
             * @example pypi.example.org
             */
            entry?: string;
            /**
             * @description The host, as far as it is known.
             * @example pypi.example.org
             */
            name?: string;
            /**
             * @description resolve: a name query. connect: a connection. datagrams: a flow of UDP. request: one of HTTP that was looked at. close: a connection's end. cut: another policy ended it.
             * @example connect
             * @enum {string}
             */
            op: "resolve" | "connect" | "datagrams" | "request" | "close" | "cut";
            /**
             * Format: int64
             * @example 443
             */
            port?: number;
            /**
             * Format: int64
             * @description Later events have higher numbers; there are gaps.
             * @example 1763715600000001
             */
            seq: number;
            /** Format: date-time */
            time: string;
            /**
             * @description The entry that decided, or what is missing.
             * @example no entry of allow names pypi.example.org
             */
            why?: string;
        };
        NetworkLog: {
            events: components["schemas"]["NetworkEvent"][];
            /**
             * Format: int64
             * @description What to send as since_seq for what comes next.
             * @example 1763715600000001
             */
            nextSeq: number;
        };
        NetworkRequest: {
            /**
             * @description Of mode allow: host names, one with a leading wildcard label like *.example.org, addresses, CIDRs, each with :port or :port-port if wanted, or groups like @pip. Names without a port are for the ports 80 and 443.
             * @example [
             *       "@pip",
             *       "api.example.org"
             *     ]
             */
            allow?: string[];
            /**
             * Format: int64
             * @description New ones; 0 is 100, with bursts of 256.
             */
            connectionsPerSecond?: number;
            /** @description The same entries, for all ports where they have none. Deny beats allow. */
            deny?: string[];
            /**
             * Format: int64
             * @description Connections and flows of UDP at once; 0 is 256.
             */
            maxConnections?: number;
            /**
             * Format: int64
             * @description MiB in both directions together since the session's last start, or the daemon's; 0 is no limit.
             */
            maxMb?: number;
            /**
             * Format: int64
             * @description Megabits per second in each direction, of all connections together; 0 is no limit.
             * @example 100
             */
            maxMbit?: number;
            /**
             * @description none: loopback only. allow: only what the list names. internet: everything public. full: private addresses too, where the operator allows it. The host's own addresses and metadata services are never reached.
             * @example allow
             * @enum {string}
             */
            mode: "none" | "allow" | "internet" | "full";
            /** @description Credentials that stay outside of the sandbox. Absent in a change, those that there are stay; an empty list removes them. */
            secrets?: components["schemas"]["NetworkSecretRequest"][] | null;
        };
        NetworkSecret: {
            /** @example Authorization */
            header?: string;
            /**
             * @example [
             *       "api.example.org"
             *     ]
             */
            hosts: string[];
            /** @example API_TOKEN */
            name: string;
            /**
             * @description What programs send instead. Only secrets of the create and of a fork's source are in variables of the sandbox; pass one that came later in env of commands.
             * @example placeholder-0f1e2d3c4b5a69788796a5b4c3d2e1f0
             */
            placeholder: string;
            query?: string;
            /** @description The stored secret that it is. */
            stored?: string;
        };
        NetworkSecretRequest: {
            /**
             * @description The header in which the placeholder is replaced: alone, behind a scheme like Bearer, or in basic authentication.
             * @example Authorization
             */
            header?: string;
            /**
             * @description Who gets it, as entries of allow without a port. The policy has to allow them.
             * @example [
             *       "api.example.org"
             *     ]
             */
            hosts?: string[];
            /**
             * @description The environment variable in the sandbox that has a placeholder, which is worth nothing.
             * @example API_TOKEN
             */
            name: string;
            /** @description The query parameter in which it is replaced, instead of a header. */
            query?: string;
            /**
             * @description A stored secret (see /v1/secrets) instead of hosts, header, query and value.
             * @example github
             */
            stored?: string;
            /**
             * @description What the host gets. It is never shown again. Absent in a change, the value that the session has for this name stays.
             * @example Bearer secret-of-the-api
             */
            value?: string;
        };
        NetworkStats: {
            /** Format: int64 */
            bytesReceived: number;
            /** Format: int64 */
            bytesSent: number;
            /**
             * Format: int64
             * @description Open now, flows of UDP among them.
             */
            connections: number;
            /** @description How often each limit refused something, by its name. */
            limitHits?: {
                [key: string]: number;
            };
            /**
             * Format: int64
             * @description Connections so far.
             */
            opened: number;
            /**
             * Format: int64
             * @description For names.
             */
            queries: number;
            /** Format: int64 */
            queriesRefused: number;
            /**
             * Format: int64
             * @description Connections, flows and requests.
             */
            refused: number;
        };
        NewKey: {
            /** Format: date-time */
            createdAt: string;
            /** Format: date-time */
            expiresAt?: string;
            /** @example f5q2bz7lq4m3k5n6p7r2s3t4u5 */
            id: string;
            /**
             * @description What requests show. Nothing ever shows it again.
             * @example sk_5jv3qk2c7m4x6b5n3a2z7w4q6e5r3t2y7u4i6o5p3s2d7f4g6h5j
             */
            key: string;
            /** Format: date-time */
            lastUsedAt?: string;
            /**
             * @description For people.
             * @example laptop
             */
            name?: string;
            /**
             * @description The key that made it, with which it ends.
             * @example k5n6p7r2s3t4u5f5q2bz7lq4m3
             */
            parentId?: string;
            /** Format: date-time */
            revokedAt?: string;
            /**
             * @example run
             * @enum {string}
             */
            scope: "read" | "run" | "admin";
            /** @example alice */
            user: string;
        };
        OK: {
            /** @example true */
            ok: boolean;
        };
        OutputResponse: {
            cause?: string;
            chunks: components["schemas"]["Chunk"][];
            /** @description As in exec, when it is done. */
            diskFull?: boolean;
            /** @description It has ended and there is nothing to come. */
            done: boolean;
            /**
             * Format: int64
             * @description Bytes between since_seq and next_seq that are in no chunk, since they are not kept.
             */
            dropped: number;
            /**
             * Format: int64
             * @description This and cause when it is done.
             */
            exitCode?: number;
            /**
             * Format: int64
             * @description What to send as since_seq for what comes next.
             * @example 3
             */
            nextSeq: number;
            /** @enum {string} */
            status: "running" | "completed";
        };
        OwnerShare: {
            /**
             * Format: double
             * @description Processor time of sessions, as it was seen a minute ago at most.
             * @example 310.2
             */
            cpuSeconds: number;
            /**
             * Format: date-time
             * @description When the month ends, and what it has is free again.
             * @example 2026-12-01T00:00:00Z
             */
            freesAt: string;
            /**
             * Format: int64
             * @description That the owner's sessions used a few seconds ago, all together. now.memory_mb is what they may use.
             * @example 805306368
             */
            memoryBytes: number;
            /**
             * @description Of UTC.
             * @example 2026-11
             */
            month: string;
            /** @description What there is at the moment, whatever the month. */
            now: components["schemas"]["UsageNow"];
            /** @example alice */
            owner: string;
            /** @description What holds for the owner now. What is left out has no limit. */
            quota: components["schemas"]["Quota"];
            /**
             * Format: int64
             * @example 73400320
             */
            receivedBytes: number;
            /**
             * Format: int64
             * @description By the networks of sessions.
             * @example 1048576
             */
            sentBytes: number;
            /**
             * Format: double
             * @description That sessions lived, all together: from their create or start to their end or stop, also while they were paused.
             * @example 5321.7
             */
            sessionSeconds: number;
            /**
             * Format: int64
             * @description That came to run.
             * @example 17
             */
            sessionsCreated: number;
            /**
             * Format: int64
             * @description The most that archives of snapshots had at once.
             * @example 52428800
             */
            snapshotPeakBytes: number;
        };
        OwnerUsage: {
            /**
             * Format: double
             * @description Processor time of sessions, as it was seen a minute ago at most.
             * @example 310.2
             */
            cpuSeconds: number;
            /**
             * Format: date-time
             * @description When the month ends, and what it has is free again.
             * @example 2026-12-01T00:00:00Z
             */
            freesAt: string;
            /**
             * @description Of UTC.
             * @example 2026-11
             */
            month: string;
            /** @description What there is at the moment, whatever the month. */
            now: components["schemas"]["UsageNow"];
            /** @example alice */
            owner: string;
            /** @description What holds for the owner now. What is left out has no limit. */
            quota: components["schemas"]["Quota"];
            /**
             * Format: int64
             * @example 73400320
             */
            receivedBytes: number;
            /**
             * Format: int64
             * @description By the networks of sessions.
             * @example 1048576
             */
            sentBytes: number;
            /**
             * Format: double
             * @description That sessions lived, all together: from their create or start to their end or stop, also while they were paused.
             * @example 5321.7
             */
            sessionSeconds: number;
            /**
             * Format: int64
             * @description That came to run.
             * @example 17
             */
            sessionsCreated: number;
            /**
             * Format: int64
             * @description The most that archives of snapshots had at once.
             * @example 52428800
             */
            snapshotPeakBytes: number;
        };
        OwnersUsage: {
            /**
             * @description Of UTC.
             * @example 2026-11
             */
            month: string;
            /** @description Who used something in the month or has something now, by name. */
            owners: components["schemas"]["OwnerShare"][];
        };
        PauseRequest: {
            /**
             * @description ram keeps it where it is, and lets the host swap it out. disk is not available: 501.
             * @example ram
             * @enum {string}
             */
            memory?: "ram" | "disk";
        };
        PoolImage: {
            /** @description How many are wanted is learned: as many as were created in the busiest ten seconds of the last ten minutes. */
            auto: boolean;
            /** @description What the name stands for now; absent if the image cannot be had. */
            digest?: string;
            /** @description Why there are fewer than wanted, if something is wrong. */
            error?: string;
            /**
             * Format: int64
             * @description Sessions that got a ready sandbox.
             * @example 240
             */
            hits: number;
            /** @example python */
            image: string;
            /**
             * Format: double
             * @description The time to make one ready, on average; 0 before the first.
             * @example 9.1
             */
            makeMs: number;
            /**
             * Format: int64
             * @description Sessions that could have had a ready sandbox, and waited for theirs to be made.
             * @example 7
             */
            misses: number;
            /**
             * Format: int64
             * @example 3
             */
            ready: number;
            /**
             * Format: int64
             * @example 3
             */
            wanted: number;
        };
        PoolStatus: {
            /** @description Whether this daemon keeps sandboxes ready. */
            enabled: boolean;
            images: components["schemas"]["PoolImage"][];
            /**
             * Format: int64
             * @description Of all images, at most.
             * @example 100
             */
            maxReady: number;
            /**
             * Format: int64
             * @description Of all images.
             * @example 3
             */
            ready: number;
            /** @description What the host is short of, so that the pool gives back what it has. */
            short?: string;
            /**
             * Format: int64
             * @description Sessions that no image of the pool is for: of another image, or with another disk_mb or readonly_rootfs than the default.
             * @example 12
             */
            unmatched: number;
        };
        Port: {
            /**
             * @description That it listens on: 0.0.0.0 and :: are any.
             * @example 127.0.0.1
             */
            address: string;
            /** @description The address is one of the sandbox's own loopback, where every port can be reached from here. */
            loopback: boolean;
            /**
             * Format: int64
             * @example 3000
             */
            port: number;
            /**
             * @description Where this daemon proxies HTTP and WebSocket to it. Needs a key or a preview token.
             * @example http://127.0.0.1:8787/v1/sessions/f5q2bz7lq4m3k5n6p7r2s3t4u5/ports/3000/
             */
            url: string;
        };
        Preview: {
            /** Format: date-time */
            expiresAt: string;
            /**
             * Format: int64
             * @example 3000
             */
            port: number;
            /**
             * @description Send it as X-Preview-Token, or once as preview_token in the query.
             * @example skp_AAAAZJKc
             */
            token: string;
            /**
             * @description For a browser: it has the token in its query, and the first answer moves that into a cookie.
             * @example http://3000-f5q2bz7lq4m3k5n6p7r2s3t4u5.preview.localhost:8787/?preview_token=skp_AAAAZJKc
             */
            url: string;
        };
        PreviewRequest: {
            /**
             * Format: int64
             * @example 3000
             */
            port: number;
            /**
             * Format: int64
             * @description How long it opens the port: an hour if not given, at most preview.max_ttl_seconds of the configuration.
             * @example 3600
             */
            ttlSeconds?: number;
        };
        ProcessRequest: {
            /** @description Answer as soon as it runs. */
            background?: boolean;
            /**
             * @description The program, looked up in PATH, and its arguments, without NUL: 128 KiB each, and 2 MiB together with the variables, which is what the kernel takes.
             * @example [
             *       "python3",
             *       "-c",
             *       "print(1)"
             *     ]
             */
            cmd: string[];
            /**
             * Format: int32
             * @description Of the terminal; 80 without it.
             */
            cols?: number;
            /**
             * @description Relative paths begin at /workspace, which is also the default.
             * @example src
             */
            cwd?: string;
            /** @description Added to the session's variables; see cmd for how much. */
            env?: {
                [key: string]: string;
            };
            /**
             * @description As in exec.
             * @example f5q2bz7lq4m3k5n6p7r2s3t4u5
             */
            execId?: string;
            /**
             * @description As in exec; not of one in the background.
             * @example kill
             * @enum {string}
             */
            onDisconnect?: "continue" | "kill";
            /** @description Leave stdin open behind that, for stdin requests. */
            openStdin?: boolean;
            /**
             * @description As in exec.
             * @example logs/build.txt
             */
            outputFile?: string;
            /** @description As in exec. */
            rawOutput?: boolean;
            /**
             * Format: int32
             * @description Of the terminal; 24 without it.
             */
            rows?: number;
            /**
             * @description merged: one output for both, in the order in which they were written; the answer has output then, and chunks say no stream. Without it, separate.
             * @example merged
             * @enum {string}
             */
            stderr?: "separate" | "merged";
            /** @description What the program reads; without it, nothing. */
            stdin?: string;
            /** @description Bytes instead of text. */
            stdinBase64?: string;
            /**
             * Format: int64
             * @description Default and maximum are at /v1/info. In the background there is none without it, or with 0.
             * @example 30000
             */
            timeoutMs?: number;
            /** @description Run on a terminal: one output instead of two, and stdin open. */
            tty?: boolean;
            /**
             * @description A name or number, with :group if wanted. Without it, the sandbox's own.
             * @example 1000:1000
             */
            user?: string;
        };
        ProcessResponse: {
            /**
             * @description As in exec.
             * @enum {string}
             */
            cause?: "exited" | "signaled" | "timeout" | "oom_killed" | "canceled" | "sandbox_gone";
            /** @description As in exec. */
            diskFull?: boolean;
            /**
             * Format: int64
             * @description How much is missing.
             */
            droppedBytes: number;
            /**
             * Format: int64
             * @example 12
             */
            durationMs: number;
            /** @example f5q2bz7lq4m3k5n6p7r2s3t4u5 */
            execId: string;
            /**
             * Format: int64
             * @description As in exec; this and what follows, when it has ended.
             * @example 0
             */
            exitCode?: number;
            /** @description As in exec. */
            networkDenied?: components["schemas"]["NetworkDenial"][];
            /** @description With a terminal, what it showed, and of merged outputs, instead of the two. */
            output?: string;
            outputBase64?: string;
            /**
             * Format: int64
             * @description All that it wrote, before anything was taken out.
             */
            outputBytes: number;
            /** @enum {string} */
            outputEncoding?: "base64";
            /** @description Where all of the output is, if the request asked for it. */
            outputFile?: string;
            /** @description As in exec. */
            outputFileError?: string;
            /**
             * Format: int64
             * @description Inside the sandbox.
             * @example 42
             */
            pid?: number;
            /**
             * Format: int64
             * @description The number of the signal that ended it.
             * @example 9
             */
            signal?: number;
            /**
             * @description running only in the background.
             * @enum {string}
             */
            status: "running" | "completed";
            /** @description Standard error, as stdout. */
            stderr: string;
            stderrBase64?: string;
            /** @enum {string} */
            stderrEncoding?: "base64";
            /**
             * @description Standard output; empty in the background, with a terminal and of merged outputs.
             * @example 1
             */
            stdout: string;
            stdoutBase64?: string;
            /**
             * @description There if it is not valid UTF-8: stdout_base64 has its bytes.
             * @enum {string}
             */
            stdoutEncoding?: "base64";
            /** @description The same as cause timeout. */
            timedOut: boolean;
            /** @description Something is missing from the output. A line in it says where and how much, but for what a control string without an end hides. */
            truncated: boolean;
            usage?: components["schemas"]["Usage"];
        };
        Progress: {
            /**
             * Format: int64
             * @example 1048576
             */
            doneBytes: number;
            /**
             * @description For people; empty before the first.
             * @example download
             */
            phase: string;
            /**
             * Format: int64
             * @description 0 if nobody knows.
             * @example 28230144
             */
            totalBytes: number;
        };
        PullRequest: {
            /** @description Allow plain HTTP to a registry on another host than the daemon's. Only for admins. */
            insecure?: boolean;
            /**
             * @description Of the image; ref without it.
             * @example python-slim
             */
            name?: string;
            /**
             * @description As for docker pull.
             * @example python:3.12-slim
             */
            ref: string;
        };
        Quota: {
            /**
             * Format: double
             * @description Cores of the sessions that are not stopped, together.
             * @example 16
             */
            cpu?: number;
            /**
             * Format: int64
             * @description MiB of disk of all sessions and workspaces together.
             * @example 102400
             */
            diskMb?: number;
            /**
             * Format: int64
             * @description MiB of these images together. The one that goes beyond it is the last.
             * @example 20480
             */
            imageMb?: number;
            /**
             * Format: int64
             * @description Of a user who may make images: their names.
             * @example 10
             */
            maxImages?: number;
            /**
             * Format: int64
             * @description Of these, sessions that are not stopped.
             * @example 10
             */
            maxRunningSessions?: number;
            /**
             * Format: int64
             * @description Sessions that have not ended, stopped ones included.
             * @example 50
             */
            maxSessions?: number;
            /**
             * Format: int64
             * @description Workspaces.
             * @example 100
             */
            maxWorkspaces?: number;
            /**
             * Format: int64
             * @description MiB of memory of the sessions that are not stopped, together.
             * @example 32768
             */
            memoryMb?: number;
            /**
             * Format: int64
             * @description MiB that the networks of sessions carry in a calendar month of UTC, in both directions together.
             * @example 10240
             */
            networkMbPerMonth?: number;
            /**
             * Format: int64
             * @description Seconds that sessions live in a calendar month of UTC, all together.
             * @example 720000
             */
            sessionSecondsPerMonth?: number;
            /**
             * Format: int64
             * @description MiB of the archives of all snapshots together.
             * @example 20480
             */
            snapshotMb?: number;
        };
        QuotaBody: {
            /**
             * Format: date-time
             * @description When it is free again. Left out where that takes an end of sessions or the removal of something.
             * @example 2026-12-01T00:00:00Z
             */
            freesAt?: string;
            /**
             * Format: double
             * @example 36000
             */
            limit: number;
            /**
             * @description As in the quota of a user.
             * @example session_seconds_per_month
             */
            name: string;
            /**
             * Format: double
             * @example 36000
             */
            used: number;
        };
        QuotaRequest: {
            /**
             * Format: double
             * @description Cores of the sessions that are not stopped, together. 0 is no limit, and null the limit of the configuration.
             * @example 16
             */
            cpu?: number | null;
            /**
             * Format: int64
             * @description MiB of disk of all sessions and workspaces together. 0 is no limit, and null the limit of the configuration.
             * @example 102400
             */
            diskMb?: number | null;
            /**
             * Format: int64
             * @description MiB of these images together. 0 is no limit, and null 20480.
             * @example 20480
             */
            imageMb?: number | null;
            /**
             * Format: int64
             * @description Names of images that a user made who may make some. 0 is no limit, and null 10.
             * @example 10
             */
            maxImages?: number | null;
            /**
             * Format: int64
             * @description Of these, sessions that are not stopped. 0 is no limit, and null the limit of the configuration.
             * @example 10
             */
            maxRunningSessions?: number | null;
            /**
             * Format: int64
             * @description Sessions that have not ended, stopped ones included. 0 is no limit, and null the limit of the configuration.
             * @example 50
             */
            maxSessions?: number | null;
            /**
             * Format: int64
             * @description Workspaces. 0 is no limit beside the owner's part of what the daemon may have, and null the limit of the configuration.
             * @example 100
             */
            maxWorkspaces?: number | null;
            /**
             * Format: int64
             * @description MiB of memory of the sessions that are not stopped, together. 0 is no limit, and null the limit of the configuration.
             * @example 32768
             */
            memoryMb?: number | null;
            /**
             * Format: int64
             * @description MiB that the networks of sessions carry in a calendar month of UTC, in both directions together. 0 is no limit, and null the limit of the configuration.
             * @example 10240
             */
            networkMbPerMonth?: number | null;
            /**
             * Format: int64
             * @description Seconds that sessions live in a calendar month of UTC, all together. 0 is no limit, and null the limit of the configuration.
             * @example 720000
             */
            sessionSecondsPerMonth?: number | null;
            /**
             * Format: int64
             * @description MiB of the archives of all snapshots together. 0 is no limit, and null the limit of the configuration.
             * @example 20480
             */
            snapshotMb?: number | null;
        };
        RecipeFile: {
            /** @example cHJpbnQoMSkK */
            contentBase64: string;
            /**
             * @description Below the recipe's directory.
             * @example app/main.py
             */
            path: string;
        };
        Result: {
            /** @description What a figure of matplotlib or plotly shows, as numbers. */
            chart?: components["schemas"]["Chart"];
            /** @description The forms, by MIME type. Pictures are base64, texts are texts, application/json is a value. */
            data: {
                [key: string]: unknown;
            };
            /** @description Its name for later updates, which have taken place. */
            displayId?: string;
            /**
             * Format: int64
             * @description Of these forms.
             */
            droppedBytes?: number;
            /** @description Forms that were too large for the answer: files in the sandbox, by MIME type. */
            filePaths?: {
                [key: string]: string;
            };
            /** @description It is the value of the last expression. */
            isMainResult: boolean;
            /** @description What this result cannot have. */
            note?: string;
            /** @description The first rows and columns of a data frame. */
            table?: components["schemas"]["Table"];
        };
        RunCodeRequest: {
            /**
             * @description At most 1 MiB as JSON.
             * @example 1 + 1
             */
            code: string;
            /**
             * @description python if it is left out.
             * @example python
             */
            language?: string;
            /**
             * Format: int64
             * @description From when it begins. Default and maximum are those of exec, at /v1/info. The kernel is interrupted then, and killed 5 s later if that is of no use.
             * @example 30000
             */
            timeoutMs?: number;
        };
        RunError: {
            /** @example ZeroDivisionError */
            name: string;
            /**
             * @description For people. Beyond 64 KiB its middle is left out.
             * @example Traceback (most recent call last): ...
             */
            traceback: string;
            /** @example division by zero */
            value: string;
        };
        RunRequest: {
            /**
             * @description At most 1 MiB as JSON.
             * @example 1 + 1
             */
            code: string;
            /**
             * Format: int64
             * @description From when it begins. Default and maximum are those of exec, at /v1/info. The kernel is interrupted then, and killed 5 s later if that is of no use.
             * @example 30000
             */
            timeoutMs?: number;
        };
        RunResult: {
            /**
             * @description How it ended. error: the code raised. timeout: it was interrupted at its timeout, which keeps the state, and killed if it went on. kernel_died: the kernel ended. oom_killed: the sandbox's memory was used up. canceled: the context was restarted or deleted.
             * @example completed
             * @enum {string}
             */
            cause: "running" | "completed" | "error" | "interrupted" | "timeout" | "kernel_died" | "oom_killed" | "canceled" | "sandbox_gone";
            /** @example f5q2bz7lq4m3k5n6p7r2s3t4u5 */
            contextId: string;
            /** @description It failed, and the disk or the workspace had no room left then. */
            diskFull?: boolean;
            /**
             * Format: int64
             * @description Results beyond the first 256.
             */
            droppedResults?: number;
            /**
             * Format: int64
             * @description Without the time that it waited for others.
             * @example 9
             */
            durationMs: number;
            /** @description The exception, if the code raised one. */
            error?: components["schemas"]["RunError"];
            /**
             * Format: int64
             * @description The kernel's number of the run, or 0.
             * @example 1
             */
            executionCount: number;
            /**
             * Format: int64
             * @description Of a kernel that died.
             */
            kernelExitCode?: number;
            /** @description The last that a kernel said that died. */
            kernelLog?: string;
            /**
             * Format: int64
             * @description The signal that a kernel died of.
             * @example 11
             */
            kernelSignal?: number;
            /** @description It is not the kernel that ran the context's code before: variables of before are gone. So it is after a restart, a kernel's end, a stop and in a fork. */
            newKernel: boolean;
            /**
             * Format: int64
             * @description The most memory that the kernel's process had in the run, also if it was killed. Its children are not in it.
             * @example 71303168
             */
            peakMemoryBytes?: number;
            /** @description What the code displayed, and at last the value of its last expression. */
            results: components["schemas"]["Result"][];
            /**
             * @description For GET runs/{run_id}. The context keeps its last 32 runs.
             * @example k3m5n6p7r2s3t4u5f5q2bz7lq4
             */
            runId: string;
            /** @description The kernel ended in this run: variables and imports are gone. Files stay. The next run gets a new kernel. */
            stateLost: boolean;
            /** @description As stdout. */
            stderr: string;
            /** Format: int64 */
            stderrDroppedBytes?: number;
            stderrFile?: string;
            stderrFileError?: string;
            /**
             * @description Without control sequences, and without lines that a carriage return has overwritten. Beyond 1 MiB the first and the last half are kept.
             * @example hi
             */
            stdout: string;
            /**
             * Format: int64
             * @description Bytes that stdout lacks.
             */
            stdoutDroppedBytes?: number;
            /**
             * @description The file in the sandbox that has all of stdout, if it was too long.
             * @example /workspace/.sandkasten-outputs/k3m5n6p7r2s3t4u5f5q2bz7lq4-stdout.txt
             */
            stdoutFile?: string;
            /** @description Why the file has not all. */
            stdoutFileError?: string;
        };
        Secret: {
            /** Format: date-time */
            createdAt: string;
            /**
             * @description In which header of a request.
             * @example Authorization
             */
            header?: string;
            /**
             * @description Which hosts get it.
             * @example [
             *       "api.example.org"
             *     ]
             */
            hosts: string[];
            /** @example github */
            name: string;
            /**
             * @description Or in which parameter of its query.
             * @example key
             */
            query?: string;
            /** @description Sessions of every key may refer to it. */
            shared: boolean;
            /**
             * Format: date-time
             * @description The last time that it was set.
             */
            updatedAt: string;
        };
        SecretRequest: {
            /**
             * @description In which header of a request it goes. Give this or query.
             * @example Authorization
             */
            header?: string;
            /**
             * @description Which hosts get it: names of at most 255 bytes, each with at most one leading wildcard label, without ports.
             * @example [
             *       "api.example.org"
             *     ]
             */
            hosts: string[];
            /** @description In which parameter of a request's query it goes. */
            query?: string;
            /** @description Sessions of every key may refer to it. Only for the daemon's own key. */
            shared?: boolean;
            /**
             * @description What the host gets, such as the header with its scheme. Nothing ever shows it again.
             * @example Bearer of-great-worth
             */
            value: string;
        };
        Secrets: {
            secrets: components["schemas"]["Secret"][];
        };
        Series: {
            label?: string;
            /**
             * Format: int64
             * @description How many there are; x and y have the first 1000.
             * @example 3
             */
            points?: number;
            /** @description Of an image. */
            shape?: number[];
            /** @example line */
            type: string;
            /** @description Numbers or texts. Of a pie, the names. */
            x?: unknown[];
            /** @description Of a pie, the shares. */
            y?: unknown[];
        };
        Session: {
            /**
             * @description A request that needs its programs wakes it when it is paused.
             * @example true
             */
            autoResume: boolean;
            /**
             * @description Changes when the session is stopped and started: its processes and shells are others then.
             * @example k5n6p7r2s3t4u5f5q2bz7lq4m3
             */
            bootId?: string;
            /** Format: date-time */
            createdAt: string;
            /**
             * @description In a list with limit: after of the page that begins behind this session.
             * @example eyJvIjoiY3JlYXRlZCJ9
             */
            cursor?: string;
            /**
             * @description Of the default shell, after its last command.
             * @example /workspace
             */
            cwd: string;
            /**
             * @description What made its sandbox.
             * @example native
             */
            driver: string;
            /** @description Why it ended, stopped or was paused, for people. */
            endReason?: string;
            /** Format: date-time */
            endedAt?: string;
            /**
             * Format: date-time
             * @description When it expires, or is stopped as on_expiry says, if nothing happens. Activity moves it, up to the maximum lifetime.
             * @example 2026-11-21T09:30:00Z
             */
            expiresAt: string;
            /**
             * @description What the calls for files reach: /workspace, or any path in the sandbox. Absent where it did not ask: then it is what the configuration says for its key.
             * @example workspace
             * @enum {string}
             */
            fileScope?: "workspace" | "sandbox";
            /** @description The session whose files it began with; absent if it is no fork. */
            forkedFrom?: string;
            /** @example sandbox */
            hostname?: string;
            /**
             * @description 26 characters of a-z and 2-7.
             * @example f5q2bz7lq4m3k5n6p7r2s3t4u5
             */
            id: string;
            /**
             * Format: int64
             * @description Idle time after which on_idle happens; absent if only ttl_seconds counts.
             * @example 300
             */
            idleTimeoutSeconds?: number;
            /** @example base */
            image: string;
            /** @description What the image's name meant when the session was created. */
            imageDigest?: string;
            labels?: {
                [key: string]: string;
            };
            /** Format: date-time */
            lastActivity: string;
            /**
             * Format: int64
             * @description Age at which it expires, active, stopped or not; absent if there is none.
             * @example 604800
             */
            lifetimeSeconds?: number;
            limits: components["schemas"]["Limits"];
            /**
             * @description That it was given at create. It may stand wherever a path has the session's id.
             * @example build-7
             */
            name?: string;
            /** @description What it may reach. */
            network: components["schemas"]["Network"];
            /**
             * @description The mode of network.
             * @example none
             */
            networkMode: string;
            /**
             * @description What happens to it after ttl_seconds: stop keeps its files for stopped_retention_seconds. It is destroy where a stop would not keep them, whatever was asked for.
             * @example stop
             * @enum {string}
             */
            onExpiry?: "stop" | "destroy";
            /**
             * @description What happens to it after idle_timeout_seconds.
             * @example destroy
             * @enum {string}
             */
            onIdle: "pause" | "stop" | "destroy";
            /**
             * @description Whose it is. Absent if the daemon needs no keys.
             * @example alice
             */
            owner?: string;
            readonlyRootfs: boolean;
            /**
             * @example running
             * @enum {string}
             */
            status: "creating" | "running" | "paused" | "stopping" | "stopped" | "starting" | "destroyed" | "expired" | "crashed" | "failed";
            /**
             * Format: int64
             * @description How long it is kept when it is stopped, from the stop on and up to lifetime_seconds. expires_at of a stopped session tells.
             * @example 604800
             */
            stoppedRetentionSeconds: number;
            /**
             * Format: int64
             * @description Idle time after which on_expiry happens, also when it is paused. A stopped session has stopped_retention_seconds.
             * @example 1800
             */
            ttlSeconds: number;
            /** @description In a list with usage: what it used a few seconds ago. Absent without processes, and where it is not known yet. */
            usage?: components["schemas"]["SessionUsage"];
            /** @description Of the workspace that outlives the session; absent if it has none. */
            workspaceId?: string;
        };
        SessionUsage: {
            /**
             * Format: int64
             * @description Processor time used up to then. Two answers tell how busy it is.
             * @example 8123
             */
            cpuUsageUsec: number;
            /**
             * Format: int64
             * @description Of all that it wrote, but for a workspace that outlives it.
             * @example 40960
             */
            diskBytes: number;
            /** Format: date-time */
            measuredAt: string;
            /**
             * Format: int64
             * @example 1482752
             */
            memoryBytes: number;
            /**
             * Format: int64
             * @example 2
             */
            pids: number;
            /** Format: int64 */
            receivedBytes?: number;
            /**
             * Format: int64
             * @description By its network since its last start, or the daemon's.
             */
            sentBytes?: number;
        };
        Shell: {
            /**
             * @description The first 256 bytes of that command.
             * @example make test
             */
            cmd?: string;
            /** Format: date-time */
            createdAt: string;
            /**
             * @description After its last command.
             * @example /workspace
             */
            cwd: string;
            /**
             * @description The command that it runs.
             * @example f5q2bz7lq4m3k5n6p7r2s3t4u5
             */
            execId?: string;
            /** @description What its commands have left running in the background. */
            jobs?: components["schemas"]["Job"][] | null;
            /** @example default */
            name: string;
            /**
             * Format: int64
             * @description Inside the sandbox; absent while it has no process.
             * @example 7
             */
            pid?: number;
            /**
             * Format: int64
             * @description Commands that wait behind that one.
             */
            queued: number;
            /**
             * Format: int64
             * @description How often it ended and was replaced.
             */
            restarts: number;
            /** @enum {string} */
            state: "idle" | "busy";
        };
        SignInRequest: {
            /**
             * @description An API key instead of a name and a password. The sign-in may what the key may, and ends with it.
             * @example sk_6f2t3zq2
             */
            apiKey?: string;
            /**
             * @description The user's name, or an e-mail address that only one user has.
             * @example alice
             */
            name?: string;
            /**
             * @description The user's password. Only with name.
             * @example correct horse battery
             */
            password?: string;
        };
        SignalRequest: {
            /**
             * @description A name like TERM or SIGTERM, or a number between 1 and 64.
             * @example TERM
             */
            signal: string | number;
        };
        SignedIn: {
            /**
             * @description What requests with the cookie send as X-CSRF-Token, but for GET and HEAD.
             * @example 4vJ9Bq3mYt1o
             */
            csrfToken?: string;
            /** @description Who has signed in. */
            me?: components["schemas"]["Me"];
            /** @description The request has the cookie of a sign-in that has not ended. */
            signedIn: boolean;
            /**
             * @description How to sign in: password, api_key, and oidc (GET /v1/auth/oidc/start in the browser) if the daemon has a provider.
             * @example [
             *       "password"
             *     ]
             */
            ways: string[];
        };
        SizeRequest: {
            /**
             * Format: int32
             * @example 80
             */
            cols: number;
            /**
             * Format: int32
             * @example 24
             */
            rows: number;
        };
        Snapshot: {
            /** Format: date-time */
            createdAt: string;
            /**
             * @description Of the default shell then.
             * @example /workspace
             */
            cwd: string;
            /**
             * Format: int64
             * @description Contexts of the session that ran as the snapshot was made, which has its files and not their variables. Only in the answer to its creation.
             * @example 1
             */
            droppedContexts?: number;
            excludePaths?: string[] | null;
            /**
             * Format: int64
             * @description Of all files in it, holes included.
             * @example 209715200
             */
            fileBytes: number;
            /**
             * Format: int64
             * @description Files, directories and links in it.
             * @example 1200
             */
            files: number;
            /**
             * @description 26 characters of a-z and 2-7.
             * @example k5n6p7r2s3t4u5f5q2bz7lq4m3
             */
            id: string;
            /**
             * @description Of the session, as its client wrote it.
             * @example base
             */
            image: string;
            /**
             * @description What that was. The files of scope sandbox lie on it.
             * @example sha256:5f70bf18a086007016e948b04aed3b82103a36bea41755b6cddfaf10ace3c6ef
             */
            imageDigest: string;
            includePaths?: string[] | null;
            label?: string;
            /** @example before-upgrade */
            name?: string;
            /**
             * @description Whose it is. An admin's key sees those of everybody.
             * @example alice
             */
            owner: string;
            /**
             * @example workspace
             * @enum {string}
             */
            scope: "workspace" | "sandbox";
            /**
             * @description What it was made of; perhaps on another host.
             * @example f5q2bz7lq4m3k5n6p7r2s3t4u5
             */
            sessionId: string;
            /**
             * Format: int64
             * @description Of the archive.
             * @example 52428800
             */
            sizeBytes: number;
        };
        SnapshotRequest: {
            /**
             * @description And not these.
             * @example [
             *       "node_modules"
             *     ]
             */
            excludePaths?: string[];
            /**
             * @description With scope sandbox: save the workspace where the driver cannot tell what else was changed; the snapshot's scope says so. Without it that is a 501.
             * @enum {string}
             */
            fallback?: "workspace";
            /**
             * @description Absolute, or from /workspace: only these, and what is below them.
             * @example [
             *       "src"
             *     ]
             */
            includePaths?: string[];
            /** @description The client's own note. */
            label?: string;
            /**
             * @description Of a-z, A-Z, 0-9, '.', '_' and '-'. Several may have the same.
             * @example before-upgrade
             */
            name?: string;
            /**
             * @description Defaults to workspace, which is /workspace. sandbox is that and all other changes to the image. The SDKs, the command line and the console ask for sandbox.
             * @example sandbox
             * @enum {string}
             */
            scope?: "workspace" | "sandbox";
        };
        Snapshots: {
            /**
             * Format: int64
             * @description What they may take (snapshots.max_total_mb). 0 is no maximum.
             * @example 68719476736
             */
            maxTotalBytes: number;
            snapshots: components["schemas"]["Snapshot"][];
            /**
             * Format: int64
             * @description What all archives of the key take, also of snapshots that are not in this list because they are not asked for, or are being made or removed.
             * @example 157286400
             */
            totalBytes: number;
        };
        Stat: {
            /**
             * @description Of a regular file: the ETag that fs/read gives, for If-Match of fs/raw.
             * @example "18a5f0b3c2d1e000-3-2a-18a5f0b3c2d1e000"
             */
            etag?: string;
            /**
             * Format: int32
             * @example 0
             */
            gid: number;
            /** @example 0644 */
            mode: string;
            /** Format: date-time */
            modifiedAt: string;
            /**
             * @description Relative to the directory. Bytes that are not UTF-8 are written as \xHH, in all paths of requests and answers.
             * @example a.txt
             */
            name: string;
            /** @example /workspace/a.txt */
            path: string;
            /**
             * Format: int64
             * @example 3
             */
            size: number;
            /** @description Of a symlink. */
            target?: string;
            /** @enum {string} */
            type: "file" | "dir" | "symlink" | "fifo" | "socket" | "device";
            /**
             * Format: int32
             * @description The owner, as the sandbox sees it.
             * @example 0
             */
            uid: number;
        };
        Stats: {
            /**
             * Format: double
             * @description In cores.
             * @example 1
             */
            cpuLimit: number;
            /**
             * Format: int64
             * @description Processor time used so far.
             * @example 8123
             */
            cpuUsageUsec: number;
            /**
             * Format: int64
             * @description Of all that it wrote, but for a workspace that outlives it.
             * @example 40960
             */
            diskBytes: number;
            /**
             * Format: int64
             * @description In bytes.
             * @example 2147483648
             */
            diskLimit: number;
            /**
             * Format: int64
             * @description Files and directories on the same disk.
             * @example 38
             */
            files: number;
            /**
             * Format: int64
             * @example 131072
             */
            filesLimit: number;
            /**
             * Format: int64
             * @example 1482752
             */
            memoryBytes: number;
            /**
             * Format: int64
             * @description In bytes.
             * @example 536870912
             */
            memoryLimit: number;
            /**
             * Format: int64
             * @description The most that memory_bytes ever was.
             * @example 2211840
             */
            memoryPeak: number;
            /** @description Since the session's last start, or the daemon's; absent if it has no network. */
            network?: components["schemas"]["NetworkStats"];
            /**
             * Format: int64
             * @description Processes killed for want of memory.
             */
            oomKills: number;
            /**
             * Format: int64
             * @example 2
             */
            pids: number;
            /**
             * Format: int64
             * @example 256
             */
            pidsLimit: number;
            /**
             * Format: int64
             * @description Of a workspace that outlives the session, by whomever they were written.
             */
            workspaceBytes?: number;
            /**
             * Format: int64
             * @description In bytes.
             */
            workspaceLimit?: number;
        };
        StatsHistory: {
            /** @description Oldest first. Where the session did not run there is a hole. */
            samples: components["schemas"]["StatsSample"][];
            /**
             * Format: int64
             * @example 10
             */
            stepSeconds: number;
        };
        StatsSample: {
            /** Format: date-time */
            at: string;
            /**
             * Format: int64
             * @description Processor time used up to then. It begins anew with the session's start.
             * @example 8123
             */
            cpuUsageUsec: number;
            /**
             * Format: int64
             * @example 40960
             */
            diskBytes: number;
            /**
             * Format: int64
             * @description With a step of 60 the most of the minute.
             * @example 1482752
             */
            memoryBytes: number;
            /**
             * Format: int64
             * @example 2
             */
            pids: number;
            /** Format: int64 */
            receivedBytes: number;
            /**
             * Format: int64
             * @description By its network since its last start, or the daemon's.
             */
            sentBytes: number;
        };
        StdinRequest: {
            /** @description End of file behind the data. A terminal has none; type \u0004 instead. */
            close?: boolean;
            /**
             * @description Text of at most 1 MiB.
             * @example yes
             */
            data?: string;
            /** @description Bytes instead of text. */
            dataBase64?: string;
        };
        StdinResponse: {
            /**
             * Format: int64
             * @description What the command took. If it is less than was sent, the command did not read within 5 s; send the rest again.
             * @example 4
             */
            acceptedBytes: number;
            /** @description Its stdin has ended. */
            closed: boolean;
        };
        Table: {
            /** @description At most 50. */
            columns: components["schemas"]["Column"][];
            /** @description The labels of the rows, where the frame has some. */
            index?: unknown[];
            /** @description At most 100, each with a value per column: a text, a number, a boolean or null. */
            rows: (unknown[] | null)[];
            /**
             * @description Rows and columns of the whole frame.
             * @example [
             *       3,
             *       2
             *     ]
             */
            shape: number[];
        };
        Unpacked: {
            /**
             * Format: int64
             * @description In all of them.
             * @example 48211
             */
            bytes: number;
            /**
             * Format: int64
             * @description Entries that were made, directories and links included.
             * @example 12
             */
            files: number;
        };
        UpdateRequest: {
            /** @description Whether a request that needs the session's programs wakes it when it is paused, as it does by default. */
            autoResume?: boolean;
            /**
             * Format: int64
             * @description Less than ttl_seconds, or as much to destroy. To pause or stop, 300 if it is not given, or half of ttl_seconds if that is less.
             * @example 300
             */
            idleTimeoutSeconds?: number;
            /** @description Instead of all that there are. */
            labels?: {
                [key: string]: string;
            };
            /**
             * Format: int64
             * @description Age at which the session expires, active, stopped or not.
             * @example 86400
             */
            lifetimeSeconds?: number;
            /**
             * @description What happens after ttl_seconds: the session is stopped and keeps its files, or is destroyed. Without it what the configuration says, which is stop for a session with a name, and destroy for others, unless the operator has set one. Where a stop would not keep the files it is destroy.
             * @example stop
             * @enum {string}
             */
            onExpiry?: "stop" | "destroy";
            /**
             * @description What happens when nothing has used the session for idle_timeout_seconds.
             * @example pause
             * @enum {string}
             */
            onIdle?: "pause" | "stop" | "destroy";
            /**
             * Format: int64
             * @description Idle time after which on_expiry happens, also when the session is paused. A stopped session is kept for stopped_retention_seconds.
             * @example 1800
             */
            ttlSeconds?: number;
        };
        Uploaded: {
            /** @example true */
            ok: boolean;
            /**
             * @description The files written, in the order of their parts.
             * @example [
             *       "/workspace/a.txt"
             *     ]
             */
            paths: string[];
        };
        Usage: {
            /**
             * Format: int64
             * @description Time on a processor.
             * @example 40
             */
            cpuMs: number;
            /**
             * Format: int64
             * @description Resident now; after the end, the most that one of them had.
             * @example 2097152
             */
            memoryBytes: number;
            /**
             * Format: int64
             * @description Now.
             */
            processes: number;
        };
        UsageDay: {
            /**
             * Format: double
             * @description Processor time of sessions, as it was seen a minute ago at most.
             * @example 310.2
             */
            cpuSeconds: number;
            /**
             * @description Of UTC.
             * @example 2026-11-28
             */
            day: string;
            /**
             * Format: int64
             * @description MiB of memory that sessions had in use, by the seconds that they had them: 3600 are one MiB for an hour. It is seen once a minute.
             * @example 921600
             */
            memoryMbSeconds: number;
            /** @example alice */
            owner: string;
            /**
             * Format: int64
             * @example 73400320
             */
            receivedBytes: number;
            /**
             * Format: int64
             * @description By the networks of sessions.
             * @example 1048576
             */
            sentBytes: number;
            /**
             * Format: double
             * @description That sessions lived, all together. Those that live count until now.
             * @example 5321.7
             */
            sessionSeconds: number;
            /**
             * Format: int64
             * @description That came to run.
             * @example 17
             */
            sessionsCreated: number;
        };
        UsageDays: {
            /** @description By day, and by owner. */
            days: components["schemas"]["UsageDay"][];
        };
        UsageNow: {
            /**
             * Format: double
             * @description Cores of those that are not stopped.
             * @example 2
             */
            cpu: number;
            /**
             * Format: int64
             * @description That sessions and workspaces may write.
             * @example 6144
             */
            diskMb: number;
            /**
             * Format: int64
             * @description Of those that are not stopped.
             * @example 1024
             */
            memoryMb: number;
            /**
             * Format: int64
             * @description Of these, that are not stopped.
             * @example 2
             */
            runningSessions: number;
            /**
             * Format: int64
             * @description That have not ended.
             * @example 3
             */
            sessions: number;
            /**
             * Format: int64
             * @example 52428800
             */
            snapshotBytes: number;
            /**
             * Format: int64
             * @description Of disk_mb, what workspaces have.
             * @example 2048
             */
            workspaceMb: number;
            /**
             * Format: int64
             * @example 2
             */
            workspaces: number;
        };
        User: {
            /** Format: date-time */
            createdAt: string;
            /** @example alice@example.org */
            email?: string;
            hasPassword: boolean;
            /**
             * @description Of a user who is no admin: what images may be made of. Their names begin with the user's and a slash.
             * @example none
             * @enum {string}
             */
            images: "none" | "pull" | "build";
            /** @description Of an admin: may look into files, terminals and output of others, and make keys for them. Those are told (get-my-inspections). */
            inspect: boolean;
            /**
             * @description The owner of what the user makes.
             * @example alice
             */
            name: string;
            /** @description What the user may have otherwise than the configuration gives to all. Left out if that is nothing. */
            quota?: components["schemas"]["Quota"];
            /**
             * @description An admin with a key of scope admin sees the sessions of all, ends them, and changes users. What is in a session of another stays closed: see inspect.
             * @example user
             * @enum {string}
             */
            role: "user" | "admin";
            /**
             * @description Only the keys of active users are valid. deleting stays until all that the user owns is removed.
             * @example active
             * @enum {string}
             */
            state: "active" | "disabled" | "deleting";
        };
        UserRequest: {
            /** @example alice@example.org */
            email?: string;
            /**
             * @description The owner of what the user makes. It never changes, and no owner of the configuration has it.
             * @example alice
             */
            name: string;
            /**
             * @description None if it is left out. Nothing ever shows it again.
             * @example correct horse battery
             */
            password?: string;
            /**
             * @description user if it is left out.
             * @example user
             * @enum {string}
             */
            role?: "user" | "admin";
        };
        UserUpdateRequest: {
            /**
             * @description Of users who change their own e-mail address or password with a credential that ends, that another key made, or that may less than they do by signing in, and of those who have signed in and have a password.
             * @example correct horse
             */
            currentPassword?: string;
            /**
             * @description Empty text takes it away.
             * @example alice@example.org
             */
            email?: string;
            /**
             * @description Only by admins. pull also takes what the user's own sessions and snapshots have; steps of a build run as root on the daemon's host.
             * @example pull
             * @enum {string}
             */
            images?: "none" | "pull" | "build";
            /**
             * @description Only by the daemon's own key, and only of admins: they may look into what others have, who are told.
             * @example true
             */
            inspect?: boolean;
            /**
             * @description At least 8 characters. Empty text takes it away.
             * @example correct horse battery
             */
            password?: string;
            /** @description Only for admins. It holds at the next use. */
            quota?: components["schemas"]["QuotaRequest"];
            /**
             * @example user
             * @enum {string}
             */
            role?: "user" | "admin";
            /**
             * @description disabled ends all requests and refuses all keys of the user.
             * @example disabled
             * @enum {string}
             */
            state?: "active" | "disabled";
        };
        Users: {
            users: components["schemas"]["User"][];
        };
        WaitRequest: {
            /**
             * Format: int64
             * @description After it the answer is the record as it is then. Without it, 600000.
             * @example 60000
             */
            timeoutMs?: number;
        };
        WaitsFor: {
            /**
             * @description Its first 256 bytes.
             * @example make test
             */
            cmd: string;
            /** @example f5q2bz7lq4m3k5n6p7r2s3t4u5 */
            execId: string;
        };
        Workspace: {
            /**
             * Format: int64
             * @description Sessions that have it now.
             * @example 1
             */
            activeSessionCount: number;
            /** Format: date-time */
            createdAt: string;
            /** @example project */
            id: string;
            labels?: {
                [key: string]: string;
            };
            /**
             * Format: date-time
             * @description The last start or end of a session with it; now, while one has it.
             */
            lastUsedAt: string;
            /**
             * Format: int64
             * @description Sessions that have or had it, as far as they are still known.
             * @example 3
             */
            sessionCount: number;
            /**
             * Format: int64
             * @description What its files take.
             * @example 52428800
             */
            sizeBytes: number;
            /**
             * Format: int64
             * @description What its files may take.
             * @example 1024
             */
            sizeMb: number;
        };
        WorkspaceInfo: {
            /**
             * Format: int64
             * @example 1024
             */
            defaultSizeMb: number;
            /**
             * Format: int64
             * @description Of all keys together; absent if there is no maximum.
             */
            maxCount?: number;
            /**
             * Format: int64
             * @example 10240
             */
            maxSizeMb: number;
            /** @description A session created without a workspace_id gets a new one. */
            persistByDefault: boolean;
            /**
             * Format: int64
             * @description One that no session has had for this long is removed; absent if none is.
             */
            retentionSeconds?: number;
        };
        WorkspaceRequest: {
            /**
             * @description Of a-z, A-Z, 0-9, '.', '_' and '-'. Without one the daemon makes one up.
             * @example project
             */
            id?: string;
            /** @description The client's own notes. */
            labels?: {
                [key: string]: string;
            };
            /**
             * Format: int64
             * @description What its files may take.
             * @example 1024
             */
            sizeMb?: number;
        };
        Workspaces: {
            workspaces: components["schemas"]["Workspace"][];
        };
        WriteRequest: {
            /** @description Add to the end of the file. This is not atomic. */
            append?: boolean;
            /** @description The file in standard base64. */
            contentBase64?: string;
            /** @description Refuse to replace a file: 409, already_exists. */
            create?: boolean;
            /**
             * @description Without it 0644, or the mode that the file has.
             * @example 0644
             */
            mode?: string;
            /**
             * @description Absolute, or from /workspace.
             * @example /workspace/a.txt
             */
            path: string;
            /**
             * @description The file as UTF-8.
             * @example hi
             */
            text?: string;
        };
        Written: {
            /**
             * @description Of the file as it was written, if the request had If-Match or If-None-Match. It is the ETag header, too.
             * @example "18a5f0b3c2d1e000-3-2a-18a5f0b3c2d1e000"
             */
            etag?: string;
            ok: boolean;
        };
    };
    responses: never;
    parameters: never;
    requestBodies: never;
    headers: never;
    pathItems: never;
}
export type SchemaAgentFunction = components['schemas']['AgentFunction'];
export type SchemaAgentTool = components['schemas']['AgentTool'];
export type SchemaAuditEntry = components['schemas']['AuditEntry'];
export type SchemaAuditPage = components['schemas']['AuditPage'];
export type SchemaAxes = components['schemas']['Axes'];
export type SchemaBuildRequest = components['schemas']['BuildRequest'];
export type SchemaBulkAnswer = components['schemas']['BulkAnswer'];
export type SchemaBulkRequest = components['schemas']['BulkRequest'];
export type SchemaBulkResult = components['schemas']['BulkResult'];
export type SchemaChart = components['schemas']['Chart'];
export type SchemaChmodRequest = components['schemas']['ChmodRequest'];
export type SchemaChunk = components['schemas']['Chunk'];
export type SchemaCodeContext = components['schemas']['CodeContext'];
export type SchemaColumn = components['schemas']['Column'];
export type SchemaCommitRequest = components['schemas']['CommitRequest'];
export type SchemaCompleteRequest = components['schemas']['CompleteRequest'];
export type SchemaCompleted = components['schemas']['Completed'];
export type SchemaContent = components['schemas']['Content'];
export type SchemaContextRequest = components['schemas']['ContextRequest'];
export type SchemaCopyRequest = components['schemas']['CopyRequest'];
export type SchemaCreateRequest = components['schemas']['CreateRequest'];
export type SchemaDefaults = components['schemas']['Defaults'];
export type SchemaDeleteRequest = components['schemas']['DeleteRequest'];
export type SchemaEditRequest = components['schemas']['EditRequest'];
export type SchemaEditResponse = components['schemas']['EditResponse'];
export type SchemaEntry = components['schemas']['Entry'];
export type SchemaErrorBody = components['schemas']['ErrorBody'];
export type SchemaEvent = components['schemas']['Event'];
export type SchemaEventAccount = components['schemas']['EventAccount'];
export type SchemaEventImageJob = components['schemas']['EventImageJob'];
export type SchemaEventWorkspace = components['schemas']['EventWorkspace'];
export type SchemaExecBurst = components['schemas']['ExecBurst'];
export type SchemaExecDetail = components['schemas']['ExecDetail'];
export type SchemaExecRecord = components['schemas']['ExecRecord'];
export type SchemaExecRequest = components['schemas']['ExecRequest'];
export type SchemaExecResponse = components['schemas']['ExecResponse'];
export type SchemaForkRequest = components['schemas']['ForkRequest'];
export type SchemaForked = components['schemas']['Forked'];
export type SchemaFound = components['schemas']['Found'];
export type SchemaHealth = components['schemas']['Health'];
export type SchemaHostFinding = components['schemas']['HostFinding'];
export type SchemaHostFindings = components['schemas']['HostFindings'];
export type SchemaHostHistory = components['schemas']['HostHistory'];
export type SchemaHostSample = components['schemas']['HostSample'];
export type SchemaImage = components['schemas']['Image'];
export type SchemaImageJob = components['schemas']['ImageJob'];
export type SchemaImageJobs = components['schemas']['ImageJobs'];
export type SchemaImages = components['schemas']['Images'];
export type SchemaInfo = components['schemas']['Info'];
export type SchemaInspection = components['schemas']['Inspection'];
export type SchemaInspections = components['schemas']['Inspections'];
export type SchemaJob = components['schemas']['Job'];
export type SchemaKey = components['schemas']['Key'];
export type SchemaKeyRequest = components['schemas']['KeyRequest'];
export type SchemaKeys = components['schemas']['Keys'];
export type SchemaLimits = components['schemas']['Limits'];
export type SchemaList = components['schemas']['List'];
export type SchemaMatch = components['schemas']['Match'];
export type SchemaMatches = components['schemas']['Matches'];
export type SchemaMaxima = components['schemas']['Maxima'];
export type SchemaMe = components['schemas']['Me'];
export type SchemaMkdirRequest = components['schemas']['MkdirRequest'];
export type SchemaMoveRequest = components['schemas']['MoveRequest'];
export type SchemaNetwork = components['schemas']['Network'];
export type SchemaNetworkAllowRequest = components['schemas']['NetworkAllowRequest'];
export type SchemaNetworkBurst = components['schemas']['NetworkBurst'];
export type SchemaNetworkDenial = components['schemas']['NetworkDenial'];
export type SchemaNetworkEvent = components['schemas']['NetworkEvent'];
export type SchemaNetworkLog = components['schemas']['NetworkLog'];
export type SchemaNetworkRequest = components['schemas']['NetworkRequest'];
export type SchemaNetworkSecret = components['schemas']['NetworkSecret'];
export type SchemaNetworkSecretRequest = components['schemas']['NetworkSecretRequest'];
export type SchemaNetworkStats = components['schemas']['NetworkStats'];
export type SchemaNewKey = components['schemas']['NewKey'];
export type SchemaOk = components['schemas']['OK'];
export type SchemaOutputResponse = components['schemas']['OutputResponse'];
export type SchemaOwnerShare = components['schemas']['OwnerShare'];
export type SchemaOwnerUsage = components['schemas']['OwnerUsage'];
export type SchemaOwnersUsage = components['schemas']['OwnersUsage'];
export type SchemaPauseRequest = components['schemas']['PauseRequest'];
export type SchemaPoolImage = components['schemas']['PoolImage'];
export type SchemaPoolStatus = components['schemas']['PoolStatus'];
export type SchemaPort = components['schemas']['Port'];
export type SchemaPreview = components['schemas']['Preview'];
export type SchemaPreviewRequest = components['schemas']['PreviewRequest'];
export type SchemaProcessRequest = components['schemas']['ProcessRequest'];
export type SchemaProcessResponse = components['schemas']['ProcessResponse'];
export type SchemaProgress = components['schemas']['Progress'];
export type SchemaPullRequest = components['schemas']['PullRequest'];
export type SchemaQuota = components['schemas']['Quota'];
export type SchemaQuotaBody = components['schemas']['QuotaBody'];
export type SchemaQuotaRequest = components['schemas']['QuotaRequest'];
export type SchemaRecipeFile = components['schemas']['RecipeFile'];
export type SchemaResult = components['schemas']['Result'];
export type SchemaRunCodeRequest = components['schemas']['RunCodeRequest'];
export type SchemaRunError = components['schemas']['RunError'];
export type SchemaRunRequest = components['schemas']['RunRequest'];
export type SchemaRunResult = components['schemas']['RunResult'];
export type SchemaSecret = components['schemas']['Secret'];
export type SchemaSecretRequest = components['schemas']['SecretRequest'];
export type SchemaSecrets = components['schemas']['Secrets'];
export type SchemaSeries = components['schemas']['Series'];
export type SchemaSession = components['schemas']['Session'];
export type SchemaSessionUsage = components['schemas']['SessionUsage'];
export type SchemaShell = components['schemas']['Shell'];
export type SchemaSignInRequest = components['schemas']['SignInRequest'];
export type SchemaSignalRequest = components['schemas']['SignalRequest'];
export type SchemaSignedIn = components['schemas']['SignedIn'];
export type SchemaSizeRequest = components['schemas']['SizeRequest'];
export type SchemaSnapshot = components['schemas']['Snapshot'];
export type SchemaSnapshotRequest = components['schemas']['SnapshotRequest'];
export type SchemaSnapshots = components['schemas']['Snapshots'];
export type SchemaStat = components['schemas']['Stat'];
export type SchemaStats = components['schemas']['Stats'];
export type SchemaStatsHistory = components['schemas']['StatsHistory'];
export type SchemaStatsSample = components['schemas']['StatsSample'];
export type SchemaStdinRequest = components['schemas']['StdinRequest'];
export type SchemaStdinResponse = components['schemas']['StdinResponse'];
export type SchemaTable = components['schemas']['Table'];
export type SchemaUnpacked = components['schemas']['Unpacked'];
export type SchemaUpdateRequest = components['schemas']['UpdateRequest'];
export type SchemaUploaded = components['schemas']['Uploaded'];
export type SchemaUsage = components['schemas']['Usage'];
export type SchemaUsageDay = components['schemas']['UsageDay'];
export type SchemaUsageDays = components['schemas']['UsageDays'];
export type SchemaUsageNow = components['schemas']['UsageNow'];
export type SchemaUser = components['schemas']['User'];
export type SchemaUserRequest = components['schemas']['UserRequest'];
export type SchemaUserUpdateRequest = components['schemas']['UserUpdateRequest'];
export type SchemaUsers = components['schemas']['Users'];
export type SchemaWaitRequest = components['schemas']['WaitRequest'];
export type SchemaWaitsFor = components['schemas']['WaitsFor'];
export type SchemaWorkspace = components['schemas']['Workspace'];
export type SchemaWorkspaceInfo = components['schemas']['WorkspaceInfo'];
export type SchemaWorkspaceRequest = components['schemas']['WorkspaceRequest'];
export type SchemaWorkspaces = components['schemas']['Workspaces'];
export type SchemaWriteRequest = components['schemas']['WriteRequest'];
export type SchemaWritten = components['schemas']['Written'];
export type $defs = Record<string, never>;
export type operations = Record<string, never>;
