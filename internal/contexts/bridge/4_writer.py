class Reader:
    def __init__(self, tag, run, after, events):
        self.tag, self.run, self.after, self.events = tag, run, after, events


class Writer(threading.Thread):
    """Writes answers. What fits into the pipe the bridge's own thread writes at once, since a change of threads costs up
    to a millisecond; the rest another thread writes: a daemon that reads slowly holds up no kernel. All but run is for the
    bridge's thread."""

    def __init__(self, wake):
        super().__init__(daemon=True)
        self.wake = wake
        self.replies, self.readers = collections.deque(), []
        self.lock = threading.Condition()
        self.handed = None  # what the other thread is to write; the lock guards it
        self.poll = select.poll()
        self.poll.register(1, select.POLLOUT)

    def reply(self, tag, kind, **fields):
        self.replies.append({"tag": tag, "kind": kind, **fields})

    def read(self, reader):
        of_run = [r for r in self.readers if r.run is reader.run]
        if len(of_run) >= READERS_LIMIT:
            self.readers.remove(of_run[0])
        self.readers.append(reader)

    def event(self, run, size, event):
        run.events.append((size + 100, event))
        run.next_seq += 1
        run.events_bytes += size + 100
        if run.events_bytes > EVENTS_KEPT:
            drop = 0
            while run.events_bytes > EVENTS_KEPT // 4 * 3 and drop < len(run.events) - 1:
                run.events_bytes -= run.events[drop][0]
                drop += 1
            del run.events[:drop]

    def end(self, run, answer):
        run.answer, run.answer_bytes = answer, len(json.dumps(answer))

    def next_frames(self):
        frames = []
        while self.replies:
            frames.append(self.replies.popleft())
        for reader in list(self.readers):
            run = reader.run
            if reader.events:
                first = run.next_seq - len(run.events)  # the number of the first that is kept
                at = max(0, reader.after + 1 - first)
                for n, (_, event) in enumerate(run.events[at:at + 256]):
                    reader.after = first + at + n
                    frames.append({"tag": reader.tag, "kind": "event", "seq": reader.after, "event": event})
            if run.answer is not None and (not reader.events or reader.after >= run.next_seq - 1):
                frames.append({"tag": reader.tag, "kind": "end", "answer": run.answer})
                self.readers.remove(reader)
        return frames

    def pump(self):
        """Writes what there is, and reports whether all of it is written."""
        while True:
            with self.lock:
                if self.handed is not None:
                    return False
            frames = self.next_frames()
            if not frames:
                return True
            data = b"".join(json.dumps(frame).encode() + b"\n" for frame in frames)
            if len(data) <= select.PIPE_BUF and self.poll.poll(0):
                self.write(data)
                continue
            with self.lock:
                self.handed = data
                self.lock.notify_all()

    def write(self, data):
        try:
            data = memoryview(data)
            while data:
                data = data[os.write(1, data):]
        except OSError:
            os._exit(1)  # nobody will ever hear of it again

    def run(self):
        while True:
            with self.lock:
                while self.handed is None:
                    self.lock.wait()
            self.write(self.handed)
            with self.lock:
                self.handed = None
                self.lock.notify_all()
            self.wake()

    def drain(self, seconds):
        end = time.monotonic() + seconds
        while not self.pump() and time.monotonic() < end:
            with self.lock:
                if self.handed is not None:
                    self.lock.wait(0.05)
