def backspaced(line, piece):
    """The line with a piece behind it, in which each backspace takes a character back."""
    if "\b" not in piece:
        return line + piece
    first, *others = piece.split("\b")
    line += first
    for other in others:
        line = line[:-1] + other
    return line


class Text:
    """A stream of a run as the answer has it: lines that a carriage return has overwritten are gone, and of too much
    the first and the last half are kept."""

    def __init__(self, spill):
        self.spill = spill  # makes the file for all of it
        self.clear()
        self.file, self.file_bytes, self.path, self.file_error = None, 0, None, None

    def clear(self):
        self.line, self.overwrite = "", False
        self.head, self.tail = [], collections.deque()
        self.head_bytes = self.tail_bytes = self.dropped = 0

    def write(self, text):
        *whole, last = text.split("\n")
        for part in whole:
            self.put(part)
            self.commit(self.line + "\n")
            self.line, self.overwrite = "", False
        self.put(last)
        if len(self.line) > TEXT_LIMIT // 8:
            self.commit(self.line)
            self.line, self.overwrite = "", False

    def put(self, part):
        pieces = part.split("\r")
        for n, piece in enumerate(pieces):
            if n:
                self.overwrite = True
            if piece:
                self.line = backspaced("" if self.overwrite else self.line, piece)
                self.overwrite = False

    def commit(self, text):
        data = plain(text).encode(errors="replace")
        if not self.tail and self.head_bytes + len(data) <= TEXT_LIMIT // 2:
            self.to_file(data)
            self.head.append(data)
            self.head_bytes += len(data)
            return
        if self.file is None and self.tail_bytes + len(data) > TEXT_LIMIT // 2 and not self.file_error:
            self.begin_file()
        self.to_file(data)
        self.tail.append(data)
        self.tail_bytes += len(data)
        while self.tail_bytes > TEXT_LIMIT // 2:
            first = self.tail.popleft()
            over = min(len(first), self.tail_bytes - TEXT_LIMIT // 2)
            if over < len(first):
                self.tail.appendleft(first[over:])
            self.tail_bytes -= over
            self.dropped += over

    def begin_file(self):
        try:
            self.path, self.file = self.spill()
        except OSError as e:
            self.file_error = str(e)
            return
        for data in [*self.head, *self.tail]:
            self.to_file(data)

    def to_file(self, data):
        if self.file is None or self.file_error:
            return
        if self.file_bytes + len(data) > FILE_LIMIT:
            self.file_error = "the file has reached its limit of %d bytes" % FILE_LIMIT
            return
        try:
            self.file.write(data)
            self.file_bytes += len(data)
        except OSError as e:
            self.file_error = str(e)

    def close(self):
        self.commit(self.line)
        self.line = ""
        if self.file is not None:
            try:
                self.file.close()
            except OSError as e:
                self.file_error = self.file_error or str(e)

    def answer(self, name):
        parts = list(self.head)
        if self.dropped:
            parts.append(b"\n[%d bytes left out]\n" % self.dropped)
        parts.extend(self.tail)
        found = {name: b"".join(parts).decode(errors="replace")}
        if self.dropped:
            found[name + "_dropped_bytes"] = self.dropped
        if self.path:
            found[name + "_file"] = self.path
        if self.file_error:
            found[name + "_file_error"] = self.file_error
        return found
