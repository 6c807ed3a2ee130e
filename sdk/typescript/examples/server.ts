// A server in the sandbox, reached from outside. The sandbox needs no network for it.
import { SandboxClient } from "@sandkasten/sdk";

const program = `
import socket
server = socket.create_server(("127.0.0.1", 3000))
print("ready", flush=True)
while True:
    connection, _ = server.accept()
    connection.recv(4096)
    connection.sendall(b"HTTP/1.0 200 OK\\r\\n\\r\\nhello from inside")
    connection.close()
`;

await using session = await new SandboxClient().createSession({ image: "python" });
const server = await session.processes.start(["python3", "-c", program]);
await server.output({ waitMs: 20_000 }); // until it says that it is ready

const response = await session.ports.fetch(3000, "/");
console.log(response.status, await response.text());
console.log((await session.ports.list()).map(({ port }) => port));

await server.kill();
console.log((await server.wait()).cause);
