import { useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import type { CreateSessionOptions } from "@sandkasten/sdk";
import { useState } from "react";
import { client } from "../api/client.js";
import { byHand, expiryOf, useUsualExpiry } from "../api/expiry.js";
import { keys } from "../api/live.js";
import { Button } from "../ui/button.js";
import { Copy } from "../ui/copy.js";
import { Dialog, FormButtons } from "../ui/dialog.js";
import { Choice, Field } from "../ui/field.js";
import { ErrorNote } from "../ui/notes.js";
import { plain } from "../ui/text.js";

/** What the form has, as text; empty is the daemon's default. */
interface Wish {
  image: string;
  name: string;
  memoryMb: string;
  cpu: string;
  diskMb: string;
  labels: string;
  ttl: string;
  onExpiry: string;
  network: string;
  allow: string;
  workspace: string;
  snapshot: string;
}

const nothing: Wish = { image: "", name: "", memoryMb: "", cpu: "", diskMb: "", labels: "", ttl: "", onExpiry: "", network: "", allow: "", workspace: "", snapshot: "" };
const theDefault = "the default";
const theSnapshots = "the snapshot's";
const networks = [theDefault, "none", "allow", "internet", "full"];
const expiries = ["stop", "destroy"] as const;
const languages = ["curl", "CLI", "Python", "TypeScript"] as const;

const number = (text: string) => (text === "" ? undefined : Number(text));

/** labelsOf reads NAME=VALUE, with commas between. The daemon says what is wrong with a name. */
function labelsOf(text: string): Record<string, string> | undefined {
  const all = text.split(",").filter((one) => one.trim()).map((one) => {
    const [name, ...value] = one.split("=");
    return [name!.trim(), value.join("=").trim()];
  });
  return all.length === 0 ? undefined : Object.fromEntries(all);
}

/** asked is the request that the page makes, and that the code beside it says. */
function asked(wish: Wish, usualExpiry: ReturnType<typeof useUsualExpiry>): CreateSessionOptions {
  const all = {
    image: wish.image || undefined, // a snapshot's image is that of its session, unless the request names one
    name: wish.name || undefined,
    memoryMb: number(wish.memoryMb),
    cpu: number(wish.cpu),
    diskMb: number(wish.diskMb),
    labels: labelsOf(wish.labels),
    ttlSeconds: number(wish.ttl),
    ...(wish.onExpiry ? { onExpiry: wish.onExpiry as (typeof expiries)[number] } : expiryOf(usualExpiry, wish.name)),
    network: wish.network ? { mode: wish.network as "none", ...(wish.network === "allow" && { allow: wish.allow.split(/[\s,]+/).filter(Boolean) }) } : undefined,
    workspaceId: wish.workspace || undefined,
    restoreSnapshotId: wish.snapshot || undefined,
  };
  return Object.fromEntries(Object.entries(all).filter(([, value]) => value !== undefined));
}

const quote = (text: string) => (/^[\w./:@=-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`);
const snake = (name: string) => name.replace(/[A-Z]/g, (c) => `_${c.toLowerCase()}`);
const flags: Record<string, string> = { name: "--name", memoryMb: "--memory", cpu: "--cpu", diskMb: "--disk", onExpiry: "--on-expiry", workspaceId: "--workspace", restoreSnapshotId: "--restore" };

/** code makes the same session elsewhere, as it stands there: it names this daemon, and has its key from the environment. */
function code(request: CreateSessionOptions, language: (typeof languages)[number], base: string): string {
  const fields = Object.entries(request);
  switch (language) {
    case "curl":
      return `curl -X POST ${base}/v1/sessions \\\n  -H "Authorization: Bearer $SANDKASTEN_API_KEY" -H "Content-Type: application/json" \\\n  -d ${quote(JSON.stringify(Object.fromEntries(fields.map(([name, value]) => [snake(name), value]))))}`;
    case "CLI": {
      const { image, network, ttlSeconds, labels = {}, ...rest } = request;
      const words = [`SANDKASTEN_URL=${base} sandkasten create`, ...(image ? [quote(image)] : []), ...Object.entries(rest).map(([name, value]) => `${flags[name]} ${quote(String(value))}`)];
      if (ttlSeconds !== undefined) words.push(`--ttl ${ttlSeconds}s`);
      for (const [name, value] of Object.entries(labels)) words.push(`--label ${quote(`${name}=${value}`)}`);
      if (network) words.push(`--network ${network.mode}`, ...(network.allow ?? []).map((entry) => `--allow ${quote(entry)}`));
      return words.join(" ");
    }
    case "Python":
      return `from sandkasten import SyncSandboxClient\n\nclient = SyncSandboxClient("${base}")  # its key is in SANDKASTEN_API_KEY\nsession = client.create_session(${fields.map(([name, value]) => `${snake(name)}=${JSON.stringify(value)}`).join(", ")})\nprint(session.id)`;
    case "TypeScript": {
      const options = fields.map(([name, value]) => `${name}: ${JSON.stringify(value)}`).join(", ");
      return `import { SandboxClient } from "@sandkasten/sdk";\n\nconst client = new SandboxClient({ baseUrl: "${base}" }); // its key is in SANDKASTEN_API_KEY\nconst session = await client.createSession(${options && `{ ${options} }`});\nconsole.log(session.id);`;
    }
  }
}

export function CreateSession({ onClose }: { onClose: () => void }) {
  const navigate = useNavigate();
  const images = useQuery({ queryKey: keys.images, queryFn: () => client.listImages() });
  const workspaces = useQuery({ queryKey: keys.workspaces, queryFn: () => client.listWorkspaces(), retry: false });
  const snapshots = useQuery({ queryKey: keys.allSnapshots, queryFn: () => client.listSnapshots(), retry: false });
  const names = [...new Set((images.data ?? []).flatMap((image) => image.names))];
  const [wish, setWish] = useState<Wish>(nothing);
  const [language, setLanguage] = useState<(typeof languages)[number]>("curl");
  const [error, setError] = useState<unknown>();
  const [busy, setBusy] = useState(false);
  const usualExpiry = useUsualExpiry();
  const request = asked(wish, usualExpiry);
  const unsaid = wish.snapshot ? theSnapshots : theDefault;
  const set = (name: keyof Wish) => (event: { target: { value: string } }) => setWish({ ...wish, [name]: event.target.value });
  const submit = async () => {
    setBusy(true);
    try {
      const session = await client.createSession({ ...(await byHand(wish.name)), ...request });
      await navigate({ to: "/sessions/$id", params: { id: session.id } });
      onClose();
    } catch (err) {
      setError(err);
      setBusy(false);
    }
  };
  return (
    <Dialog open onClose={onClose} title="New session" wide>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          void submit();
        }}
        className="flex flex-col gap-4"
      >
        <div className="grid gap-3 sm:grid-cols-2">
          <Choice label="Image" options={[unsaid, ...names]} value={wish.image || unsaid} onChange={(event) => setWish({ ...wish, image: event.target.value === unsaid ? "" : event.target.value })} />
          <Field label="Name" value={wish.name} onChange={set("name")} placeholder="optional" />
          <Field label="Memory in MiB" type="number" min={16} value={wish.memoryMb} onChange={set("memoryMb")} placeholder={theDefault} />
          <Field label="Processors" type="number" min={0.1} step={0.1} value={wish.cpu} onChange={set("cpu")} placeholder={theDefault} />
          <Field label="Disk in MiB" type="number" min={16} value={wish.diskMb} onChange={set("diskMb")} placeholder={theDefault} />
          <Field label="Labels" value={wish.labels} onChange={set("labels")} placeholder="team=search, run=17" />
          <Field label="Seconds without activity until it ends" type="number" min={1} value={wish.ttl} onChange={set("ttl")} placeholder={theDefault} />
          <Choice label="What becomes of it then" options={expiries} value={wish.onExpiry || (usualExpiry === "destroy" ? "destroy" : "stop")} onChange={set("onExpiry")} hint="Stopped, it keeps its files for a while, and can be started again." />
          <Choice label="Network" options={networks} value={wish.network || theDefault} onChange={(event) => setWish({ ...wish, network: event.target.value === theDefault ? "" : event.target.value })} />
          {wish.network === "allow" && <Field label="Allowed hosts" value={wish.allow} onChange={set("allow")} placeholder="@pip, *.example.org" hint="Names, *.domains, addresses, CIDRs, with :port if wanted, or groups like @pip." />}
          <Field label="Workspace" value={wish.workspace} onChange={set("workspace")} placeholder="none" list="workspaces" hint="It outlives the session, and is made if it does not exist." />
          <Field label="Begin with the files of a snapshot" value={wish.snapshot} onChange={set("snapshot")} placeholder="none" list="snapshots" />
          <datalist id="workspaces">
            {workspaces.data?.map((one) => <option key={one.id} value={one.id} />)}
          </datalist>
          <datalist id="snapshots">
            {snapshots.data?.map((one) => (
              <option key={one.id} value={one.id}>
                {plain(one.name ?? "")}
              </option>
            ))}
          </datalist>
        </div>
        <div>
          <div role="tablist" aria-label="The same as code" className="mb-2 flex gap-1">
            {languages.map((name) => (
              <Button key={name} kind="bare" role="tab" aria-selected={name === language} className={name === language ? "text-text bg-sunk" : ""} onClick={() => setLanguage(name)}>
                {name}
              </Button>
            ))}
          </div>
          <Copy block text={code(request, language, window.location.origin)} />
          <p className="mt-1 text-xs text-muted">The key is read from SANDKASTEN_API_KEY: make one under Users and keys.</p>
        </div>
        <ErrorNote error={error ?? images.error} />
        <FormButtons onClose={onClose} verb={busy ? "Creating" : "Create"} disabled={busy} />
      </form>
    </Dialog>
  );
}
