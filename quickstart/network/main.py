"""A sandbox that may install packages and call one API, with a key that it never sees.

API_URL=https://api.example.org/v1/me API_KEY=... python main.py
"""

import os
from urllib.parse import urlsplit

from sandkasten import SyncSandboxClient

URL = os.environ.get("API_URL", "https://api.example.org/v1/me")
KEY = os.environ["API_KEY"]
HOST = urlsplit(URL).hostname or ""

NETWORK = {
    "mode": "allow",
    "allow": ["@pip", HOST],
    "secrets": [{"name": "API_KEY", "hosts": [HOST], "header": "Authorization", "value": f"Bearer {KEY}"}],
}

CALL = f"""
import os, urllib.request
request = urllib.request.Request({URL!r}, headers={{"Authorization": "Bearer " + os.environ["API_KEY"]}})
print(urllib.request.urlopen(request, timeout=20).read().decode())
"""

with SyncSandboxClient() as client, client.create_session(image="python", network=NETWORK) as session:
    print("The sandbox has:", session.exec("echo $API_KEY").output.strip())

    installed = session.exec("python3 -m pip install --quiet six")
    print("pip install:", "ok" if installed.exit_code == 0 else installed.output.strip().splitlines()[-1])

    session.write("call.py", CALL)
    called = session.exec("python3 call.py")
    print("The API answers:", called.output.strip().splitlines()[-1])

    session.exec(
        "python3 -c 'import urllib.request; urllib.request.urlopen(\"https://elsewhere.example.org\")'"
    )
    for event in session.network_log().events:
        if not event.allowed:
            print("Refused:", event.name or event.address, "-", event.why)
