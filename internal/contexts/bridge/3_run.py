class Run:
    """One piece of code, from the request to its answer."""

    def __init__(self, request, files):
        self.id = request["run"]
        self.code = request["code"]
        self.timeout = request["timeout_ms"] / 1000
        self.files = files
        self.msg_id = None
        self.began = self.deadline = self.kill_at = self.finish_at = None
        self.executing_at = self.interrupt_at = None
        self.interrupted = self.timed_out = False
        self.reply = None  # what the kernel replied, at the end of the code
        self.idle = False
        self.shown_errors = []  # until it is known which ended the code
        self.clear_next = False
        self.stdout = Text(lambda: files.make(self.id + "-stdout.txt"))
        self.stderr = Text(lambda: files.make(self.id + "-stderr.txt"))
        self.results, self.result_bytes, self.dropped_results, self.files_made = [], 0, 0, 0
        self.error = None
        self.execution_count = None
        self.fresh_kernel = False
        self.peak = 0
        # What readers get.
        self.events, self.events_bytes, self.next_seq = [], 0, 1
        self.answer, self.answer_bytes = None, 0

    def bundle(self, data, main, display_id):
        """The result that an answer has for a MIME bundle: within bounds, with the rest in files."""
        result = {"data": {}, "is_main_result": main}
        if display_id:
            result["display_id"] = display_id
        data = dict(data)
        for mime, name in ((TABLE, "table"), (CHART, "chart")):
            described = data.pop(mime, None)
            if isinstance(described, dict) and len(json.dumps(described)) <= DESCRIPTION_LIMIT:
                result[name] = described
        if "chart" not in result and isinstance(data.get(PLOTLY), dict):
            described = plotly_chart(data[PLOTLY])
            if described and len(json.dumps(described)) <= DESCRIPTION_LIMIT:
                result["chart"] = described
        if data.pop(WIDGET, None) is not None:
            result["note"] = "interactive widgets are not offered: this is their text"
        for mime, value in data.items():
            if isinstance(value, list) and not mime.endswith("json"):
                value = "".join(map(str, value))
            if mime.startswith("image/") and isinstance(value, str):
                value = value.strip() if "svg" not in mime else value
            if mime.startswith("text/plain") and isinstance(value, str):
                value = plain(value)
            size = len(json.dumps(value))
            if self.result_bytes + size <= RESULT_LIMIT:
                self.result_bytes += size
                result["data"][mime] = value
            else:
                self.to_file(result, mime, value, size)
        return result

    def to_file(self, result, mime, value, size):
        kind = re.sub(r"[^a-z0-9]", "", mime.split("/")[-1].split("+")[0].lower())[:12] or "txt"
        try:
            if not isinstance(value, str):
                content = json.dumps(value).encode()
            elif mime.startswith(("image/", "application/pdf")) and "svg" not in mime:
                content = base64.b64decode(value)
            else:
                content = value.encode(errors="replace")
            self.files_made += 1
            path, f = self.files.make("%s-%d.%s" % (self.id, self.files_made, {"plain": "txt"}.get(kind, kind)))
            with f:
                f.write(content[:FILE_LIMIT])
            result.setdefault("file_paths", {})[mime] = path
        except (OSError, ValueError) as e:
            result["note"] = "a part of this result is lost: %s" % e
        result["dropped_bytes"] = result.get("dropped_bytes", 0) + size


class Files:
    """Where outputs go that are too large for an answer: a directory of the workspace, so that whoever reads files of
    the session can read them. It is made when it is needed."""

    def __init__(self, private):
        self.private, self.dir = private, None

    def make(self, name):
        self.dir = self.choose()  # code may have removed it
        path = os.path.join(self.dir, name)
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        return path, os.fdopen(fd, "wb")

    def choose(self):
        if os.path.isdir("/workspace") and os.access("/workspace", os.W_OK):
            path = "/workspace/.sandkasten-outputs"
            os.makedirs(path, 0o700, exist_ok=True)
            return path
        path = os.path.join(self.private, "outputs")
        os.makedirs(path, 0o700, exist_ok=True)
        return path
