# The bridge runs in the sandbox, as a process of its session, and is what a context is there: it keeps one Jupyter
# kernel by Jupyter's own client library. It takes requests as lines of JSON on standard input and answers on standard
# output. Nothing listens on TCP for it: the kernel's sockets are files in a directory that only its user may enter.
#
# The bridge keeps what runs have answered, so that a daemon that was killed, or a client whose connection broke, asks
# for a run by its id. It stays alive when its kernel does not.
#
# Its files are one program: the daemon joins them in the order of their names.
import base64
import collections
import json
import math
import os
import re
import select
import shutil
import signal
import sys
import tempfile
import threading
import time
import traceback

TEXT_LIMIT = 1 << 20  # of stdout, and of stderr, in an answer
RESULT_LIMIT = 8 << 20  # of all results of a run in an answer, as JSON
RESULT_COUNT = 256
TRACEBACK_LIMIT = 64 << 10
ERRORS_HELD = 16  # of those that were displayed, until the code ends
DESCRIPTION_LIMIT = 256 << 10  # of a chart or table
FILE_LIMIT = 256 << 20  # of a file with what an answer lacks
EVENT_TEXT = 64 << 10
EVENTS_KEPT = 8 << 20  # of one run, for readers that come later
RUNS_KEPT = 32
RUN_BYTES_KEPT = 24 << 20  # of all runs together
QUEUE_LIMIT = 64
READERS_LIMIT = 16  # of one run
START_SECONDS = 60
BEGINS_SECONDS = 0.1  # between a kernel's word that it runs code and the code
IDLE_SECONDS = 2  # between a run's reply and the last of its output
MAX_MESSAGES = 200  # before the bridge looks at its clock

TABLE = "application/vnd.sandkasten.table+json"
CHART = "application/vnd.sandkasten.chart+json"
WIDGET = "application/vnd.jupyter.widget-view+json"
ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])")


def plain(text):
    return ESCAPES.sub("", text)


def disk_full():
    for path in ("/", "/workspace"):
        try:
            found = os.statvfs(path)
        except OSError:
            continue
        if found.f_blocks and found.f_bavail * found.f_frsize <= 2 << 20 or found.f_files and not found.f_favail:
            return True
    return False


def tail_of(path, limit=4096):
    try:
        with open(path, "rb") as f:
            f.seek(max(0, os.fstat(f.fileno()).st_size - limit))
            return f.read().decode(errors="replace")
    except OSError:
        return ""
