import { useQueryClient } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import type { Entry, Session } from "@sandkasten/sdk";
import { useCallback, useMemo, useState, type DragEvent, type ReactNode } from "react";
import { client } from "../api/client.js";
import { useWriter } from "../api/me.js";
import { Act } from "../ui/act.js";
import { Button, look } from "../ui/button.js";
import { Confirm } from "../ui/confirm.js";
import { EmptyState, ErrorNote, Skeleton } from "../ui/notes.js";
import { Text, plain } from "../ui/text.js";
import { chosen, dropped, type Dropped } from "./files/dropped.js";
import { NameDialog } from "./files/name.js";
import { isBelow, join, parent, rawURL, tarURL } from "./files/paths.js";
import { useRows } from "./files/rows.js";
import { Tree } from "./files/tree.js";
import { UploadList } from "./files/upload.js";
import { uploadsOf } from "./files/uploads.js";
import { FileView } from "./files/viewer.js";
import { useWatched } from "./files/watch.js";

const route = getRouteApi("/sessions/$id");

const none: ReadonlySet<string> = new Set();

export function FilesTab({ id, runs }: { id: string; runs: boolean }) {
  const { path: top = "." } = route.useSearch();
  const cache = useQueryClient();
  const [opened, setOpened] = useState(none);
  const [active, setActive] = useState<string>();
  const [asking, setAsking] = useState<"file" | "folder" | "rename" | "delete">();
  const [open, setOpen] = useState<{ path: string; entry: Entry }>();
  const [over, setOver] = useState<string>();
  const [problem, setProblem] = useState<unknown>();
  const { rows, error, isPending } = useRows(id, top, opened);
  const watched = useWatched(id, top, runs);
  const row = rows.find(({ path }) => path === active);
  // Where what is new comes to.
  const target = !row ? top : row.entry.type === "dir" ? row.path : parent(row.path);
  const writer = useWriter();
  const ask = (what: typeof asking) => writer && setAsking(what);
  const again = useCallback(() => cache.invalidateQueries({ queryKey: ["files", id] }), [cache, id]);
  const change = async (act: (session: Session) => Promise<unknown>) => {
    await act(await client.getSession(id));
    await again();
  };
  const show = (dir: string) => dir !== top && setOpened((now) => new Set(now).add(dir));
  const toggle = (dir: string) => setOpened((now) => (now.has(dir) ? new Set([...now].filter((one) => one !== dir)) : new Set(now).add(dir)));
  const make = async (name: string) => {
    const path = join(target, name);
    await change((session) => (asking === "folder" ? session.makeDir(path) : session.write(path, "", { create: true })));
    show(target);
    setActive(path);
  };
  const rename = async (name: string) => {
    if (!row) return;
    const to = join(parent(row.path), name);
    await change((session) => session.move(row.path, to));
    setOpened((now) => new Set([...now].map((dir) => (isBelow(dir, row.path) ? to + dir.slice(row.path.length) : dir))));
    setActive(to);
  };
  const remove = async () => {
    setAsking(undefined);
    if (!row) return;
    const at = rows.indexOf(row);
    setProblem(undefined);
    try {
      await change((session) => session.remove(row.path, { recursive: row.entry.type === "dir" }));
      setOpened((now) => new Set([...now].filter((dir) => !isBelow(dir, row.path))));
      setActive((rows.slice(at).find(({ path }) => !isBelow(path, row.path)) ?? rows[at - 1])?.path);
    } catch (err) {
      setProblem(err);
    }
  };
  const upload = async (dir: string, what: Dropped | Promise<Dropped>) => {
    setProblem(undefined);
    try {
      const { files, dirs } = await what;
      uploadsOf(id).add(files.map(({ path, file }) => ({ path: join(dir, path), file })));
      if (dirs.length > 0) await change((session) => Promise.all(dirs.map((path) => session.makeDir(join(dir, path), { parents: true }))));
      show(dir);
    } catch (err) {
      setProblem(err);
    }
  };
  const dirOf = (event: DragEvent) => (event.target as Element).closest<HTMLElement>("[data-dir]")?.dataset.dir ?? top;
  const drag = (event: DragEvent) => {
    if (!writer || !event.dataTransfer.types.includes("Files")) return;
    event.preventDefault();
    setOver(dirOf(event));
  };
  const drop = (event: DragEvent) => {
    event.preventDefault();
    setOver(undefined);
    if (writer) void upload(dirOf(event), dropped(event.dataTransfer));
  };
  return (
    <div className="flex h-full flex-col" onDragOver={drag} onDragLeave={() => setOver(undefined)} onDrop={drop}>
      <div className="flex flex-wrap items-center gap-2 px-4 py-2">
        <Crumbs id={id} path={top} />
        <div role="group" aria-label="Actions" className="ml-auto flex flex-wrap items-center justify-end gap-2">
          <Button kind="bare" disabled={row?.entry.type !== "file"} onClick={() => row && setOpen(row)}>
            Open
          </Button>
          <Act kind="bare" disabled={!row} onClick={() => ask("rename")}>
            Rename
          </Act>
          <Act kind="bare" disabled={!row} onClick={() => ask("delete")}>
            Delete
          </Act>
          <Download id={id} path={row?.path ?? top} type={row?.entry.type ?? "dir"} />
          <Act onClick={() => ask("file")}>New file</Act>
          <Act onClick={() => ask("folder")}>New folder</Act>
          <Pick onPick={(files) => void upload(target, chosen(files))}>Upload</Pick>
          <Pick folder onPick={(files) => void upload(target, chosen(files))}>
            Upload folder
          </Pick>
        </div>
      </div>
      <div className="px-4">
        <ErrorNote error={error ?? problem} />
        {watched.refused && (
          <p role="status" className="flex items-center gap-2 pb-2 text-muted">
            Changes are not followed here
            <Button
              onClick={() => {
                void again();
                watched.again();
              }}
            >
              Reload
            </Button>
          </p>
        )}
        {over !== undefined && (
          <p role="status" className="pb-2 text-muted">
            Drop to upload to <Text of={over === "." ? "/workspace" : over} />
          </p>
        )}
      </div>
      {isPending ? (
        <Skeleton />
      ) : rows.length === 0 && !error ? (
        <EmptyState title="Nothing here">Drop files or folders onto this page to upload them.</EmptyState>
      ) : (
        <Tree rows={rows} active={active} onActive={setActive} onToggle={toggle} onOpen={(one) => one.entry.type === "file" && setOpen(one)} onRename={() => ask("rename")} onDelete={() => ask("delete")} />
      )}
      <UploadList id={id} onArrive={again} />
      {open && <FileView id={id} path={open.path} entry={open.entry} onClose={() => setOpen(undefined)} onSave={again} />}
      {(asking === "file" || asking === "folder") && <NameDialog title={`New ${asking} in ${plain(target === "." ? "/workspace" : target)}`} verb="Make" onClose={() => setAsking(undefined)} onName={make} />}
      {asking === "rename" && row && <NameDialog title={`Rename ${plain(row.entry.name)}`} verb="Rename" name={row.entry.name} onClose={() => setAsking(undefined)} onName={rename} />}
      <Confirm open={asking === "delete" && row !== undefined} title={`Delete ${plain(row?.entry.name ?? "")}?`} onKeep={() => setAsking(undefined)} onDelete={() => void remove()}>
        {row?.entry.type === "dir" ? "The folder and all that is in it are removed." : "It is removed."} This cannot be undone.
      </Confirm>
    </div>
  );
}

/** A link, so that the browser saves what comes, and shows how far it is. */
function Download({ id, path, type }: { id: string; path: string; type: Entry["type"] }) {
  return (
    <a className={look()} href={type === "file" ? rawURL(id, path) : tarURL(id, path)} download>
      {type === "file" ? "Download" : "Download as tar"}
    </a>
  );
}

/** A button that has the browser ask for files, or for a folder of them. */
function Pick({ folder = false, onPick, children }: { folder?: boolean; onPick: (files: File[]) => void; children: ReactNode }) {
  const writer = useWriter();
  const ways = useMemo(() => (folder ? { webkitdirectory: "" } : {}), [folder]);
  if (!writer) return null;
  return (
    <label className={`${look()} cursor-pointer focus-within:outline-2 focus-within:outline-accent`}>
      {children}
      <input
        type="file"
        multiple
        {...ways}
        className="sr-only"
        onChange={({ target }) => {
          onPick([...(target.files ?? [])]);
          target.value = ""; // the same file can be chosen again
        }}
      />
    </label>
  );
}

function Crumbs({ id, path }: { id: string; path: string }) {
  const parts = path === "." ? [] : path.split("/");
  return (
    <nav aria-label="Directory" className="flex flex-wrap items-center gap-1 font-mono text-xs">
      <Link to="/sessions/$id" params={{ id }} search={{ tab: "files" }} className="text-accent">
        /workspace
      </Link>
      {parts.map((part, index) => (
        <span key={index}>
          {"/ "}
          <Link to="/sessions/$id" params={{ id }} search={{ tab: "files", path: parts.slice(0, index + 1).join("/") }} className="text-accent">
            <Text of={part} />
          </Link>
        </span>
      ))}
    </nav>
  );
}
