"""Runs a web server in a session and talks to it."""

from sandkasten import SyncSandboxClient

with SyncSandboxClient() as client, client.create_session(image="python") as session:
    session.write("site/index.html", "<h1>hello from the sandbox</h1>\n")
    server = session.processes.start(["python3", "-u", "-m", "http.server", "3000"], cwd="site")
    print(server.output(wait_ms=20_000).chunks[0].text.strip())
    print(session.ports.fetch(3000).text, end="")
