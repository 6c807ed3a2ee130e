#!/bin/sh
# A session with nothing but curl: make it, run a command, write and read a file,
# follow a command while it runs, and remove it.
set -eu

: "${SANDKASTEN_URL:=http://127.0.0.1:8787}"
: "${SANDKASTEN_API_KEY:?is not set: the daemon keeps its key in <data_dir>/api_key}"
sessions=$SANDKASTEN_URL/v1/sessions

api() { curl -sS --fail-with-body -H "Authorization: Bearer $SANDKASTEN_API_KEY" -H 'Content-Type: application/json' "$@"; }
field() { python3 -c 'import json, sys; print(json.load(sys.stdin)[sys.argv[1]], end="")' "$1"; }

id=$(api "$sessions" -d '{"image": "python", "ttl_seconds": 600}' | field id)
trap 'api -X DELETE "$sessions/$id" >/dev/null' EXIT

echo "The shell remembers:"
api "$sessions/$id/exec" -d '{"cmd": "cd /tmp && greeting=hello"}' >/dev/null
api "$sessions/$id/exec" -d '{"cmd": "echo $greeting from $PWD"}' | field output

echo "A file:"
api "$sessions/$id/fs/write" -d '{"path": "answer.py", "text": "print(6 * 7)\n"}' >/dev/null
api "$sessions/$id/exec" -d '{"cmd": "python3 /workspace/answer.py"}' | field output

echo "Output as it is written:"
api -N "$sessions/$id/exec/stream" -d '{"cmd": "for i in 1 2 3; do echo step $i; done"}'
