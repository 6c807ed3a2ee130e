class Reader:
    def __init__(self, tag, run, after, events):
        self.tag, self.run, self.after, self.events = tag, run, after, events


class Writer(threading.Thread):
    """Writes answers in a thread of its own: a daemon that reads slowly holds up no kernel. The lock guards the events
    and answers of runs."""

    def __init__(self):
        super().__init__(daemon=True)
        self.lock = threading.Condition()
        self.replies, self.readers = collections.deque(), []
        self.busy = False

    def reply(self, tag, kind, **fields):
        with self.lock:
            self.replies.append({"tag": tag, "kind": kind, **fields})
            self.lock.notify_all()

    def read(self, reader):
        with self.lock:
            of_run = [r for r in self.readers if r.run is reader.run]
            if len(of_run) >= READERS_LIMIT:
                self.readers.remove(of_run[0])
            self.readers.append(reader)
            self.lock.notify_all()

    def event(self, run, size, event):
        with self.lock:
            run.events.append((size + 100, event))
            run.next_seq += 1
            run.events_bytes += size + 100
            if run.events_bytes > EVENTS_KEPT:
                drop = 0
                while run.events_bytes > EVENTS_KEPT // 4 * 3 and drop < len(run.events) - 1:
                    run.events_bytes -= run.events[drop][0]
                    drop += 1
                del run.events[:drop]
            self.lock.notify_all()

    def end(self, run, answer):
        with self.lock:
            run.answer, run.answer_bytes = answer, len(json.dumps(answer))
            self.lock.notify_all()

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

    def run(self):
        while True:
            with self.lock:
                self.busy = False
                self.lock.notify_all()
                frames = self.next_frames()
                while not frames:
                    self.lock.wait()
                    frames = self.next_frames()
                self.busy = True
            try:
                for frame in frames:
                    sys.stdout.buffer.write(json.dumps(frame).encode() + b"\n")
                    sys.stdout.buffer.flush()
            except OSError:
                os._exit(1)  # nobody will ever hear of it again

    def drain(self, seconds):
        end = time.monotonic() + seconds
        with self.lock:
            while (self.busy or self.replies) and time.monotonic() < end:
                self.lock.wait(0.05)
