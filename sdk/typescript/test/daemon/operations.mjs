// What the steps of sdk/contract/cases.json mean in this SDK.
import assert from "node:assert/strict";
import { createHash } from "node:crypto";

const camel = (name) => name.replace(/_([a-z0-9])/g, (_, letter) => letter.toUpperCase());
const snake = (name) => name.replace(/[A-Z]/g, (letter) => "_" + letter.toLowerCase());
const maps = new Set(["env", "labels", "limitHits", "data", "filePaths"]);

function rename(value, name) {
  if (Array.isArray(value)) return value.map((item) => rename(item, name));
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([k, v]) => [name(k), maps.has(k) ? v : rename(v, name)]));
}

export const toAPI = (value) => rename(value, snake);
export const toSDK = (value) => rename(value, camel);

/** Collects a stream: its end, and the chunks joined by stream. */
async function collect(events) {
  let end;
  const joined = { output: "", stdout: "", stderr: "" };
  for await (const event of events) {
    if (event.type === "chunk") {
      joined[event.stream ?? "output"] += event.text;
    } else if (event.type === "done") {
      end = event;
    }
  }
  return { ...end, ...joined };
}

/** A run with what its getters say. */
function ran(run) {
  return { ...run.info, text: run.text, png: run.png && Buffer.from(run.png).toString("base64") };
}

function repeated(text, times) {
  const bytes = new TextEncoder().encode(text);
  let left = times;
  return new ReadableStream({ pull: (c) => (left-- > 0 ? c.enqueue(bytes) : c.close()) });
}

export const onClient = {
  createSession: (client, options) => client.createSession(options),
  getSession: (client, { id }) => client.getSession(id),
  listSessions: async (client, options) => (await client.listSessions(options)).map((session) => session.info),
  events: async (client, { count, ...options }) => {
    const events = [];
    for await (const event of client.events(options)) if (events.push(event) === count) break;
    return { events, last: events.at(-1).id };
  },
  createWorkspace: (client, options) => client.createWorkspace(options),
  getWorkspace: (client, { id }) => client.getWorkspace(id),
  listWorkspaces: (client) => client.listWorkspaces(),
  deleteWorkspace: (client, { id, ...options }) => client.deleteWorkspace(id, options),
  listSnapshots: (client, options) => client.listSnapshots(options),
  getSnapshot: (client, { id }) => client.getSnapshot(id),
  deleteSnapshot: (client, { id }) => client.deleteSnapshot(id),
  copySnapshot: async (client, { id, ...options }) =>
    client.uploadSnapshot(await new Response(await client.downloadSnapshot(id)).blob(), options),
  listImages: (client) => client.listImages(),
  getImage: (client, { name }) => client.getImage(name),
  deleteImage: (client, { name }) => client.deleteImage(name),
  pullImage: (client, { ref, ...options }) => client.pullImage(ref, options),
  buildImage: (client, { name, ...options }) => client.buildImage(name, options),
  commitImage: (client, { name, ...options }) => client.commitImage(name, options),
  listImageJobs: (client) => client.listImageJobs(),
  getImageJob: (client, { id }) => client.getImageJob(id),
  cancelImageJob: (client, { id }) => client.cancelImageJob(id),
  waitImageJob: (client, { id }) => client.waitImageJob(id),
  setSecret: (client, { name, ...options }) => client.setSecret(name, options),
  getSecret: (client, { name }) => client.getSecret(name),
  listSecrets: (client) => client.listSecrets(),
  deleteSecret: (client, { name }) => client.deleteSecret(name),
  me: (client) => client.me(),
  createUser: (client, { name, ...options }) => client.createUser(name, options),
  myUsage: (client, options) => client.myUsage(options),
  userUsage: (client, { name, ...options }) => client.userUsage(name, options),
  allUsage: (client, options) => client.allUsage(options),
  usageDays: (client, options) => client.usageDays(options),
  listInspections: (client) => client.listInspections(),
  getUser: (client, { name }) => client.getUser(name),
  listUsers: (client) => client.listUsers(),
  updateUser: (client, { name, ...options }) => client.updateUser(name, options),
  deleteUser: (client, { name }) => client.deleteUser(name),
  createKey: (client, options) => client.createKey(options),
  listKeys: (client, options) => client.listKeys(options),
  listAudit: (client, options) => client.listAudit(options),
  hostHistory: (client, options) => client.hostHistory(options),
  hostFindings: (client) => client.hostFindings(),
  changeSessions: (client, { action, ids }) => client.changeSessions(action, ids),
  completeScope: (client, { scope, ...options }) => client.completeScope(scope, options),
  revokeKey: (client, { id }) => client.revokeKey(id),
  info: (client) => client.info(),
};

export const onSession = {
  refresh: (s) => s.refresh(),
  pause: (s, options) => s.pause(options),
  resume: (s) => s.resume(),
  stop: (s) => s.stop(),
  start: (s) => s.start(),
  update: (s, options) => s.update(options),
  heartbeat: (s) => s.heartbeat(),
  destroy: (s) => s.destroy(),
  stats: (s) => s.stats(),
  statsHistory: (s, options) => s.statsHistory(options),
  network: (s) => s.network(),
  setNetwork: (s, network) => s.setNetwork(network),
  allowNetwork: (s, { entries }) => s.allowNetwork(entries),
  networkLog: (s, options) => s.networkLog(options),
  followNetworkLog: async (s, { count, ...options }) => {
    const events = [];
    for await (const event of s.followNetworkLog(options)) if (events.push(event) === count) break;
    return events;
  },
  snapshot: (s, options) => s.snapshot(options),
  fork: (s, options) => s.fork(options),
  exec: (s, { cmd, ...options }) => s.exec(cmd, options),
  execStream: (s, { cmd, ...options }) => collect(s.execStream(cmd, options)),
  cancelExec: async (s, { cmd, path, ...options }) => {
    const abort = new AbortController();
    const reason = new Error("enough");
    const failed = assert.rejects(s.exec(cmd, { ...options, signal: abort.signal }), reason);
    while (!(await s.exists(path)));
    const began = Date.now();
    abort.abort(reason);
    await failed;
    const record = await s.processes.get(options.execId).wait();
    assert.ok(Date.now() - began < 1000, `the command ended after ${Date.now() - began} ms`);
    return record;
  },
  attach: (s, { execId }) => collect(s.attach(execId)),
  write: (s, { path, text, base64, ...options }) => s.write(path, text ?? Buffer.from(base64, "base64"), options),
  read: async (s, { path, ...options }) => ({ base64: Buffer.from(await s.read(path, options)).toString("base64") }),
  readText: (s, { path, ...options }) => s.readText(path, options),
  list: (s, { path, ...options }) => s.list(path, options),
  glob: (s, { pattern, ...options }) => s.glob(pattern, options),
  grep: (s, { pattern, ...options }) => s.grep(pattern, options),
  exists: (s, { path }) => s.exists(path),
  stat: (s, { path, ...options }) => s.stat(path, options),
  edit: (s, { path, old, new: replacement, ...options }) => s.edit(path, old, replacement, options),
  makeDir: (s, { path, ...options }) => s.makeDir(path, options),
  move: (s, { from, to, ...options }) => s.move(from, to, options),
  copy: (s, { from, to, ...options }) => s.copy(from, to, options),
  remove: (s, { path, ...options }) => s.remove(path, options),
  chmod: (s, { path, mode, ...options }) => s.chmod(path, mode, options),
  upload: (s, { path, text, repeat }) => s.upload(path, repeated(text, repeat)),
  uploadFiles: (s, { path, files }) => s.uploadFiles(files, path),
  download: async (s, { path }) => {
    const hash = createHash("sha256");
    let size = 0;
    for await (const bytes of await s.download(path)) {
      hash.update(bytes);
      size += bytes.length;
    }
    return { size, sha256: hash.digest("hex") };
  },
  runProcess: (s, { cmd, ...options }) => s.processes.run(cmd, options),
  runTold: async (s, { cmd, ...options }) => {
    const told = { toldStdout: "", toldStderr: "" };
    const onStdout = (text) => void (told.toldStdout += text);
    const onStderr = async (text) => void (told.toldStderr += text);
    return { ...(await s.processes.run(cmd, { ...options, onStdout, onStderr })), ...told };
  },
  startProcess: (s, { cmd, ...options }) => s.processes.start(cmd, options),
  listProcesses: (s) => s.processes.list(),
  runCode: async (s, { code, ...options }) => ran(await s.runCode(code, options)),
  runCodeTold: async (s, { code, ...options }) => {
    const told = { stdout: "", stderr: "", results: [], updates: [], clears: 0, errors: [] };
    const started = [];
    const run = await s.runCode(code, {
      ...options,
      onStart: ({ contextId, runId }) => started.push(contextId, runId),
      onStdout: (text) => (told.stdout += text),
      onStderr: (text) => (told.stderr += text),
      onResult: (result) => told.results.push(result.data["text/plain"]),
      onUpdate: (result) => told.updates.push(result.data["text/plain"]),
      onClear: () => (told.clears += 1),
      onError: (error) => told.errors.push(error.name),
    });
    const { contextId, runId } = run.info;
    return { ...ran(run), told: { ...told, started: started.join() === `${contextId},${runId}` } };
  },
  createContext: async (s, { language, ...options }) => (await s.createContext(language, options)).info,
  listContexts: async (s) => (await s.contexts()).map((context) => context.info),
  runInContext: async (s, { context, code }) => ran(await s.context(context).run(code)),
  getRun: async (s, { context, runId }) => ran(await s.context(context).getRun(runId)),
  restartContext: (s, { context }) => s.context(context).restart(),
  deleteContext: (s, { context }) => s.context(context).delete(),
  listPorts: (s) => s.ports.list(),
  createPreview: (s, { port, ...options }) => s.ports.preview(port, options),
  fetchPort: async (s, { port, path }) => {
    const response = await s.ports.fetch(port, path);
    return { status: response.status, body: await response.text() };
  },
};

export const onProcess = {
  writeStdin: (p, { text }) => p.writeStdin(text),
  closeStdin: (p) => p.closeStdin(),
  kill: (p) => p.kill(),
  signal: (p, { signal }) => p.signal(signal),
  processOutput: (p, options) => p.output(options),
  processStream: (p) => collect(p.stream()),
  wait: (p) => p.wait(),
};
