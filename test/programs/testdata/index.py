"""A package index of the wheels in /srv/wheels, and of a package skdemo with a program."""

import http.server
import pathlib
import re
import zipfile

WHEELS = pathlib.Path("/srv/wheels")
PAGE = "<!DOCTYPE html><title>index</title>"


def make_demo() -> None:
    info = "skdemo-1.0.dist-info"
    files = {
        "skdemo/__init__.py": "def main():\n    print('skdemo runs')\n",
        f"{info}/METADATA": "Metadata-Version: 2.1\nName: skdemo\nVersion: 1.0\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/entry_points.txt": "[console_scripts]\nskdemo = skdemo:main\n",
    }
    record = "".join(f"{name},,\n" for name in files) + f"{info}/RECORD,,\n"
    with zipfile.ZipFile(WHEELS / "skdemo-1.0-py3-none-any.whl", "w") as wheel:
        for name, text in {**files, f"{info}/RECORD": record}.items():
            wheel.writestr(name, text)


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


class Index(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        parts = self.path.split("?")[0].strip("/").split("/")
        if len(parts) != 2:
            self.answer(404, "text/plain", b"none")
        elif parts[0] == "files" and (WHEELS / parts[1]).is_file():
            self.answer(200, "application/octet-stream", (WHEELS / parts[1]).read_bytes())
        else:
            found = [w.name for w in sorted(WHEELS.glob("*.whl")) if normal(w.name.split("-")[0]) == parts[1]]
            links = "".join(f'<a href="/files/{name}">{name}</a>\n' for name in found)
            self.answer(200 if found else 404, "text/html", (PAGE + links).encode())

    def answer(self, status: int, kind: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    do_HEAD = do_GET

    def log_message(self, *args: object) -> None:
        pass


make_demo()
http.server.ThreadingHTTPServer(("127.0.0.1", 8099), Index).serve_forever()
