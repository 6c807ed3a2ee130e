class UsedMark:
    """A file that says that code has run in a context of this name: behind a stop and a start of the sandbox, or in a
    fork, its next kernel is a new one. A context without a name is never another's successor."""

    def __init__(self, name):
        self.path = name and os.path.join(tempfile.gettempdir(), ".sandkasten-used-%d-%s" % (os.getuid(), name))
        self.done = not name

    def is_set(self):
        return bool(self.path) and os.path.lexists(self.path)

    def set(self):
        if self.done:
            return
        self.done = True
        try:
            os.close(os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW, 0o600))
        except OSError:
            pass


class Bridge:
    def __init__(self, start):
        self.start_request = start
        self.wake_read, self.wake_write = os.pipe()
        os.set_blocking(self.wake_read, False)
        os.set_blocking(self.wake_write, False)
        self.writer = Writer(self.wake)
        self.received = b""  # of a request that is not whole
        # mkdtemp lets its own user in alone. The paths of sockets are short.
        self.private = tempfile.mkdtemp(prefix="sandkasten-", dir="/tmp" if len(tempfile.gettempdir()) > 60 else None)
        self.files = Files(self.private)
        self.runs = collections.OrderedDict()
        self.queue = collections.deque()
        self.current = None
        self.kernel, self.kernels_made = None, 0
        self.used = UsedMark(start.get("remembers", ""))
        self.state_lost = self.used.is_set()
        self.waiting_ready = [start["tag"]]  # who hears when the kernel is there
        self.spec = self.language = None
        self.log = ""

    # requests

    def wake(self):
        try:
            os.write(self.wake_write, b"x")
        except BlockingIOError:
            pass

    def take_wakes(self):
        try:
            os.read(self.wake_read, 4096)
        except BlockingIOError:
            pass

    def read_requests(self):
        try:
            data = os.read(0, 1 << 20)
        except BlockingIOError:
            return
        if not data:
            self.on_exit(None)
        self.take_requests(data)

    def take_requests(self, data):
        *lines, self.received = (self.received + data).split(b"\n")
        for line in lines:
            try:
                request = json.loads(line)
            except ValueError:
                continue
            handler = getattr(self, "on_" + str(request.get("op")), None)
            if handler is not None:
                handler(request)

    def on_exit(self, request):
        self.close()
        sys.exit(0)

    def on_status(self, request):
        self.writer.reply(request["tag"], "status", status=self.status())

    def status(self):
        state = "busy" if self.current else "idle"
        if self.kernel is None:
            state = "no_kernel"
        elif not self.kernel.ready:
            state = "starting"
        return {
            "kernel": self.spec, "language": self.language, "state": state, "run_id": self.current.id if self.current else "",
            "queued": len(self.queue), "kernels_started": self.kernels_made,
            "pid": getattr(getattr(getattr(self.kernel, "manager", None), "provisioner", None), "pid", None) or 0,
        }

    def on_run(self, request):
        if len(self.queue) >= QUEUE_LIMIT:
            self.writer.reply(request["tag"], "refused", reason="queue_full")
            return
        run = self.runs.get(request["run"])
        if run is None:
            run = Run(request, self.files)
            self.runs[run.id] = run
            self.queue.append(run)
            self.writer.event(run, 0, {"type": "queued"})  # by which readers learn its id
            self.forget_runs()
        self.writer.read(Reader(request["tag"], run, 0, request.get("events", False)))
        self.begin_next()

    def on_follow(self, request):
        run = self.runs.get(request["run"])
        if run is None:
            self.writer.reply(request["tag"], "refused", reason="no_run")
            return
        self.writer.read(Reader(request["tag"], run, request.get("after", 0), request.get("events", False)))

    def on_look(self, request):
        run = self.runs.get(request["run"])
        if run is None:
            self.writer.reply(request["tag"], "refused", reason="no_run")
        else:
            answer = run.answer or self.answer_of(run, "running")
            self.writer.reply(request["tag"], "end", answer=answer)

    def on_interrupt(self, request):
        if self.current:
            self.current.interrupted = True
            self.interrupt(self.current)
        self.writer.reply(request["tag"], "done")

    def interrupt(self, run):
        """Interrupts what runs. A kernel forgets an interrupt that comes before the code has begun."""
        run.interrupt_at = max(time.monotonic(), run.executing_at + BEGINS_SECONDS) if run.executing_at else math.inf

    def on_restart(self, request):
        for run in [self.current, *self.queue]:
            if run is not None:
                self.finish(run, "canceled", state_lost=run is self.current)
        self.queue.clear()
        self.close_kernel()
        self.state_lost = True
        self.waiting_ready.append(request["tag"])
        self.start_kernel()

    def forget_runs(self):
        ended = [r for r in self.runs.values() if r.answer is not None]
        total = sum(r.answer_bytes + r.events_bytes for r in ended)
        read = {r.run.id for r in list(self.writer.readers)}
        for run in ended:
            if len(self.runs) <= RUNS_KEPT and total <= RUN_BYTES_KEPT:
                return
            if run.id not in read:
                total -= run.answer_bytes + run.events_bytes
                del self.runs[run.id]

    # the kernel

    def choose_spec(self):
        from jupyter_client.kernelspec import KernelSpecManager

        specs = KernelSpecManager().get_all_specs()
        wanted = self.start_request["language"].lower()
        languages = {n: str(s["spec"].get("language", "")).lower() for n, s in specs.items()}
        found = [n for n in sorted(specs, key=lambda n: (n != "python3", n)) if languages[n] == wanted or n.lower() == wanted]
        if not found:
            kernels = [{"name": n, "language": languages[n]} for n in sorted(specs)]
            self.fail("no_kernel", kernels=kernels[:32])
        self.spec = wanted if wanted in specs else found[0]
        self.language = languages[self.spec]

    def fail(self, reason, **fields):
        self.writer.reply(self.start_request["tag"], "failed", reason=reason, **fields)
        self.writer.drain(5)
        self.close()
        sys.exit(1)

    def start_kernel(self):
        self.kernels_made += 1
        try:
            self.kernel = Kernel(self.spec, self.private, self.kernels_made, self.language == "python")
        except Exception as e:  # of what the library does there are many
            self.kernel, self.log = None, "%s: %s" % (type(e).__name__, e)
            self.not_started()

    def not_started(self):
        if self.kernels_made == 1:
            self.fail("kernel_failed", log=self.log[-2000:])
        for tag in self.waiting_ready:
            self.writer.reply(tag, "refused", reason="kernel_failed", log=self.log[-2000:])
        self.waiting_ready.clear()
        if self.current:
            self.finish(self.current, "kernel_died", state_lost=True, log=self.log)

    def close_kernel(self):
        if self.kernel is not None:
            self.kernel.close()
            if self.current is not None:
                self.current.peak = max(self.current.peak, self.kernel.peak)
            self.kernel = None

    def kernel_ready(self):
        self.kernel.ready = True
        if self.kernel.python:
            self.kernel.client.execute(SETUP, silent=True, store_history=False, allow_stdin=False, stop_on_error=False)
        for tag in self.waiting_ready:
            self.writer.reply(tag, "ready", status=self.status())
        self.waiting_ready.clear()

    def begin_next(self):
        if self.current is None and self.queue:
            self.current = self.queue.popleft()
            self.current.fresh_kernel = self.state_lost
            self.state_lost = False
            self.current.began = time.monotonic()
        run = self.current
        if run is None or run.msg_id is not None:
            return
        if self.kernel is None:
            self.start_kernel()
        if self.current is run and self.kernel is not None and self.kernel.ready:
            run.began = time.monotonic()
            run.deadline = run.began + run.timeout
            self.kernel.begin_peak()
            self.used.set()
            run.msg_id = self.kernel.client.execute(run.code, allow_stdin=False, stop_on_error=False)
            self.writer.event(run, 0, {"type": "start"})

    # messages

    def take_shell(self, message):
        parent = message["parent_header"].get("msg_id")
        if message["msg_type"] == "kernel_info_reply":
            self.kernel.answered = True
            return
        run = self.current
        if run is None or parent != run.msg_id or message["msg_type"] != "execute_reply":
            return
        content = message["content"]
        run.execution_count = content.get("execution_count", run.execution_count)
        run.reply = content
        run.finish_at = time.monotonic() + IDLE_SECONDS
        self.finish_whole(run)

    def take_iopub(self, message):
        self.kernel.heard = True
        kind, content = message["msg_type"], message["content"]
        run = self.current
        if run is None or run.msg_id is None or message["parent_header"].get("msg_id") != run.msg_id:
            return
        if kind == "status":
            if content.get("execution_state") == "idle":
                run.idle = True
                run.finish_at = run.finish_at or time.monotonic() + IDLE_SECONDS
                self.finish_whole(run)
        elif kind == "stream":
            self.add_text(run, "stderr" if content.get("name") == "stderr" else "stdout", str(content.get("text", "")))
        elif kind in ("display_data", "execute_result", "update_display_data"):
            self.add_bundle(run, kind, content)
        elif kind == "error":
            self.clear_if_due(run)
            run.shown_errors.append(content)
            self.show_errors(run, ERRORS_HELD)
        elif kind == "clear_output":
            run.clear_next = bool(content.get("wait"))
            if not run.clear_next:
                self.clear(run)
        elif kind == "execute_input":
            run.execution_count = content.get("execution_count", run.execution_count)
            run.executing_at = time.monotonic()
            if run.interrupt_at:
                self.interrupt(run)

    def add_text(self, run, name, text):
        self.clear_if_due(run)
        getattr(run, name).write(text)
        for at in range(0, len(text), EVENT_TEXT):
            part = text[at:at + EVENT_TEXT]
            self.writer.event(run, len(part), {"type": name, "text": part})

    def add_bundle(self, run, kind, content):
        data = content.get("data") or {}
        display_id = (content.get("transient") or {}).get("display_id")
        if display_id:
            self.update(run, data, display_id, kind == "update_display_data")
        if kind != "update_display_data":
            self.add_result(run, data, kind == "execute_result", display_id)

    def update(self, run, data, display_id, by_request):
        """Every display of the run that has this id gets the data. Those of runs before have been answered: readers of
        events hear of them."""
        last = None
        for n, old in enumerate(run.results):
            if old.get("display_id") == display_id:
                run.result_bytes -= sum(len(json.dumps(v)) for v in old["data"].values())
                last = run.results[n] = run.bundle(data, old["is_main_result"], display_id)
        if last is None and by_request and not run.clear_next:
            last = run.bundle(data, False, display_id)
            run.result_bytes -= sum(len(json.dumps(v)) for v in last["data"].values())
        if last is not None:
            self.result_event(run, {"type": "result", "result": last, "updates": True})

    def add_result(self, run, data, main, display_id):
        self.clear_if_due(run)
        if len(run.results) >= RESULT_COUNT:
            run.dropped_results += 1
            return
        run.results.append(run.bundle(data, main, display_id))
        self.result_event(run, {"type": "result", "result": run.results[-1]})

    def result_event(self, run, event):
        self.writer.event(run, len(json.dumps(event)), event)

    def show_errors(self, run, held=0):
        """Shows exceptions that did not end the code, such as that of an object's repr, as text of stderr."""
        while len(run.shown_errors) > held:
            lines = run.shown_errors.pop(0).get("traceback") or []
            self.add_text(run, "stderr", "\n".join(map(str, lines)).rstrip("\n") + "\n")

    def take_reply(self, run):
        """Takes what the reply says: whether an exception ended the code. That was displayed as well."""
        content = run.reply
        failed = content.get("status") == "error"
        for n in range(len(run.shown_errors) - 1, -1, -1):
            if failed and all(run.shown_errors[n].get(k) == content.get(k) for k in ("ename", "evalue", "traceback")):
                del run.shown_errors[n]
                break
        self.show_errors(run)
        if failed:
            self.set_error(run, content)
        elif content.get("status") == "aborted":
            run.error = {"name": "Aborted", "value": "the kernel did not run it", "traceback": ""}
        for payload in content.get("payload") or []:  # what ?object shows
            if payload.get("source") == "page" and isinstance(payload.get("data"), dict):
                self.add_result(run, payload["data"], False, None)

    def set_error(self, run, content):
        traceback = plain("\n".join(map(str, content.get("traceback") or [])))
        if len(traceback) > TRACEBACK_LIMIT:
            half = TRACEBACK_LIMIT // 2
            traceback = "%s\n[%d characters left out]\n%s" % (traceback[:half], len(traceback) - 2 * half, traceback[-half:])
        run.error = {
            "name": str(content.get("ename", ""))[:1024], "value": plain(str(content.get("evalue", "")))[:16384], "traceback": traceback,
        }
        self.writer.event(run, len(traceback), {"type": "error", "error": run.error})

    def clear_if_due(self, run):
        if run.clear_next:
            run.clear_next = False
            self.clear(run)

    def clear(self, run):
        run.stdout.clear()
        run.stderr.clear()
        run.results, run.result_bytes, run.dropped_results, run.shown_errors = [], 0, 0, []
        self.writer.event(run, 0, {"type": "clear"})

    # ends

    def finish_whole(self, run):
        if run.reply is None or not run.idle:
            return
        self.take_reply(run)
        # Whatever came of the interrupt: code may catch it, and a kernel that has not begun
        # with the code runs nothing of it, without an error.
        cause = "timeout" if run.timed_out else "completed"
        if run.error is not None:
            cause = "error"
            if run.error["name"] == "KeyboardInterrupt":
                cause = "timeout" if run.timed_out else "interrupted" if run.interrupted else cause
        self.finish(run, cause)

    def answer_of(self, run, cause):
        answer = {
            "run_id": run.id, "cause": cause, "results": list(run.results), "error": run.error, "execution_count": run.execution_count or 0,
            "duration_ms": int((time.monotonic() - run.began) * 1000) if run.began else 0, "state_lost": False, "new_kernel": run.fresh_kernel,
        }
        for name in ("stdout", "stderr"):
            answer.update(getattr(run, name).answer(name))
            if cause == "running":
                answer[name] += plain(getattr(run, name).line)
        if run.dropped_results:
            answer["dropped_results"] = run.dropped_results
        return answer

    def finish(self, run, cause, state_lost=False, log="", code=None):
        self.show_errors(run)
        run.stdout.close()
        run.stderr.close()
        answer = self.answer_of(run, cause)
        answer["state_lost"] = state_lost
        if run is self.current and self.kernel is not None:
            self.kernel.look_at_peak()
            run.peak = max(run.peak, self.kernel.peak)
        if run.peak:
            answer["peak_memory_bytes"] = run.peak
        if cause in ("error", "kernel_died") and disk_full():
            answer["disk_full"] = True
        if code is not None:
            answer["kernel_exit_code" if code >= 0 else "kernel_signal"] = abs(code)
        if log:
            answer["kernel_log"] = plain(log)[-4000:]
        if run is self.current:
            self.current = None
            if state_lost:
                self.state_lost = True
        self.writer.end(run, answer)

    def watch(self):
        """Looks at the clock, and whether the kernel lives."""
        now, run = time.monotonic(), self.current
        if self.kernel is not None and self.kernel.ended():
            self.kernel_ended()
        elif self.kernel is not None and not self.kernel.ready:
            if self.kernel.answered and self.kernel.heard:
                self.kernel_ready()
            elif now - self.kernel.started > START_SECONDS:
                self.log = "the kernel did not answer within %d seconds" % START_SECONDS
                self.close_kernel()
                self.not_started()
            else:
                self.kernel.ask()
        elif run is not None and run.msg_id is not None:
            self.watch_run(run, now)
        self.begin_next()

    def watch_run(self, run, now):
        if run.kill_at and now >= run.kill_at:
            self.close_kernel()
            self.finish(run, "timeout", state_lost=True)
        elif run.finish_at and now >= run.finish_at:
            run.reply, run.idle = run.reply or {}, True
            self.finish_whole(run)
        elif not run.timed_out and now >= run.deadline and run.reply is None:
            run.timed_out = True
            run.kill_at = now + self.start_request["grace_ms"] / 1000
            self.interrupt(run)
        if run.interrupt_at and now >= run.interrupt_at:
            run.interrupt_at = None
            self.kernel.interrupt()

    def kernel_ended(self):
        # What it wrote last is read before.
        while self.kernel.heard and (message := self.kernel.receive(self.kernel.iopub)):
            self.take_iopub(message)
        code, ready = self.kernel.code(), self.kernel.ready
        self.log = tail_of(self.kernel.log)
        self.close_kernel()
        if not ready:
            self.not_started()
        elif self.current is not None:
            cause = "timeout" if self.current.timed_out else "kernel_died"
            self.finish(self.current, cause, state_lost=True, log=self.log, code=code)
        else:
            self.state_lost = True

    def next_wake(self):
        run, now = self.current, time.monotonic()
        if self.kernel is not None and not self.kernel.ready:
            return 0.02
        times = [now + 1.0]
        if run is not None and run.msg_id is not None:
            times = [now + 0.25, *[t for t in (run.kill_at, run.finish_at, run.interrupt_at, None if run.timed_out else run.deadline) if t]]
        return max(0.0, min(times) - now)

    def loop(self):
        import zmq

        while True:
            poller = zmq.Poller()
            poller.register(0, zmq.POLLIN)
            poller.register(self.wake_read, zmq.POLLIN)
            kernel = self.kernel
            if kernel is not None:
                poller.register(kernel.iopub, zmq.POLLIN)
                poller.register(kernel.shell, zmq.POLLIN)
            found = dict(poller.poll(self.next_wake() * 1000))
            if kernel is not None:
                # All that was said goes before the reply, which ends a run.
                self.take(kernel, kernel.iopub, found, self.take_iopub)
                self.take(kernel, kernel.shell, found, self.take_shell)
            if self.wake_read in found:
                self.take_wakes()
            if 0 in found:
                self.read_requests()
            self.watch()
            self.writer.pump()

    def take(self, kernel, socket, found, handle):
        for _ in range(MAX_MESSAGES if socket in found else 0):
            if self.kernel is not kernel:
                return
            message = kernel.receive(socket)
            if message is None:
                return
            handle(message)

    def close(self):
        self.close_kernel()
        if self.files.dir and self.files.dir.startswith(self.private):
            return  # files that answers name are there
        shutil.rmtree(self.private, ignore_errors=True)

    def main(self):
        self.writer.start()
        try:
            import jupyter_client  # noqa: F401
        except ImportError:
            self.fail("no_client")
        self.choose_spec()
        os.set_blocking(0, False)
        self.start_kernel()
        self.take_requests(sys.stdin.buffer.read(len(sys.stdin.buffer.peek())))  # what was read with the first
        self.loop()


def ended_by_signal(*_):
    raise SystemExit(143)


def bridge(setup):
    global SETUP
    SETUP = setup
    first = json.loads(sys.stdin.buffer.readline())
    b = Bridge(first)
    signal.signal(signal.SIGTERM, ended_by_signal)
    signal.signal(signal.SIGINT, lambda *_: None)  # not SIG_IGN, which a kernel would inherit
    code = 1
    try:
        b.main()
    except SystemExit as e:
        code = e.code
    except BaseException:
        traceback.print_exc()
    b.close()
    os._exit(code)  # threads of libraries would hold up an ordinary end
