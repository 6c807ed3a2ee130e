import type { Entry } from "@sandkasten/sdk";
import { useBlocker } from "@tanstack/react-router";
import { Suspense, useMemo, useState, type KeyboardEvent, type ReactNode } from "react";
import { Button, look } from "../../ui/button.js";
import { Confirm } from "../../ui/confirm.js";
import { Dialog } from "../../ui/dialog.js";
import { Boundary, late } from "../../ui/late.js";
import { ErrorNote, Skeleton } from "../../ui/notes.js";
import { useLoss } from "../../ui/leave.js";
import { bytes } from "../../ui/table.js";
import { plain } from "../../ui/text.js";
import { decode, unify } from "./content.js";
import { HexView } from "./hex.js";
import { kindOf, maxText, pictureType, type Kind } from "./kind.js";
import { pageURL, rawURL } from "./paths.js";
import { Picture } from "./picture.js";
import { useStored, type Stored } from "./stored.js";

const Editor = late(() => import("./editor.js").then((view) => view.default));
const Diff = late(() => import("./diff.js").then((view) => view.default));
const TableView = late(() => import("./table.js").then((view) => view.default));
const Markdown = late(() => import("./markdown.js").then((view) => view.default));
const Notebook = late(() => import("./notebook.js").then((view) => view.default));

const always = () => true;

/** A file of a session: its text, which can be changed, its bytes, or what they mean. */
export function FileView({ id, path, entry, onClose, onSave }: { id: string; path: string; entry: Entry; onClose: () => void; onSave: () => Promise<unknown> }) {
  const stored = useStored(id, path, entry.name, onSave);
  const [reviewing, setReviewing] = useState(false);
  const [leaving, setLeaving] = useState(false);
  useLoss(stored.changed);
  // Back, and whatever else leads to another page. The browser itself asks before it leaves the console.
  const away = useBlocker({ shouldBlockFn: always, disabled: !stored.changed, enableBeforeUnload: false, withResolver: true });
  const save = async (how = stored.save) => {
    await how();
    setReviewing(false);
  };
  const close = () => (reviewing ? setReviewing(false) : stored.changed ? setLeaving(true) : onClose());
  const stay = () => {
    setLeaving(false);
    away.reset?.();
  };
  const leave = () => {
    away.proceed?.();
    onClose();
  };
  const keys = (event: KeyboardEvent) => {
    if (event.key !== "s" || !(event.ctrlKey || event.metaKey) || event.altKey || event.shiftKey) return;
    event.preventDefault();
    if (!stored.editable || !stored.changed || stored.theirs) return;
    if (reviewing) void save();
    else setReviewing(true);
  };
  return (
    <Dialog open onClose={close} title={plain(path)} wide="full">
      <div onKeyDown={keys}>
        <ErrorNote error={stored.problem} />
        {stored.isPending ? (
          <Skeleton rows={6} />
        ) : stored.theirs === "nothing" ? (
          <Deleted onBack={() => stored.choose(true)} onMake={() => void save(stored.makeAnew)} />
        ) : stored.theirs ? (
          <Meanwhile name={entry.name} theirs={stored.theirs} mine={stored.now} onChoose={stored.choose} />
        ) : (
          <>
            {reviewing && <Review name={entry.name} stored={stored} />}
            {/* It stays when it is not seen: the editor has its history. */}
            <div hidden={reviewing}>{stored.bytes && <Contents id={id} path={path} entry={entry} stored={stored} bytes={stored.bytes} active={!reviewing} />}</div>
            <div className="mt-3 flex flex-wrap justify-end gap-2">
              {reviewing ? (
                <>
                  <Button onClick={() => setReviewing(false)}>Back</Button>
                  <Button key="write" kind="main" autoFocus onClick={() => void save()}>
                    Save
                  </Button>
                </>
              ) : (
                <>
                  <a className={look()} href={rawURL(id, path)} download={entry.name}>
                    Download
                  </a>
                  <Button onClick={close}>Close</Button>
                  {stored.editable && (
                    <Button kind="main" disabled={!stored.changed} onClick={() => setReviewing(true)}>
                      {stored.saved && !stored.changed ? "Saved" : "Save\u2026"}
                    </Button>
                  )}
                </>
              )}
            </div>
          </>
        )}
        <Confirm open={leaving || away.status === "blocked"} title="Leave without saving?" verb="Leave" onKeep={stay} onDelete={leave}>
          What you changed in <code className="font-mono text-xs break-all">{plain(path)}</code> is lost.
        </Confirm>
      </div>
    </Dialog>
  );
}

/** The view of a file, if it has one, or its source: text, or bytes. */
function Contents({ id, path, entry, stored, bytes: data, active }: { id: string; path: string; entry: Entry; stored: Stored; bytes: Uint8Array; active: boolean }) {
  const [chosen, setChosen] = useState<"source" | "view">("view");
  const { file, isText, editable, now } = stored;
  const kind = stored.whole ? kindFor(entry.name, data, file !== undefined) : undefined;
  const source = !kind || chosen === "source";
  const [edited, setEdited] = useState(false);
  return (
    <>
      {kind && <Switch shown={chosen} source={isText ? "Source" : "Bytes"} onChoose={setChosen} />}
      {kind && !source && (
        <Pane scroll={kind !== "table" && kind !== "page"}>
          {kind === "page" ? <Page key={stored.tag} id={id} path={path} changed={stored.changed} /> : <View kind={kind} name={entry.name} data={data} text={file && now} />}
        </Pane>
      )}
      {isText && (source || edited) && (
        <div hidden={!source}>
          {file?.mixed && <p className="mb-2 text-muted">The lines of this file end in several ways, which would be lost here: it can only be read.</p>}
          <Pane>
            <Editor
              name={entry.name}
              text={now}
              readOnly={!editable}
              active={active && source}
              onChange={(text) => {
                setEdited(true);
                stored.setText(text);
              }}
            />
          </Pane>
          <p className="mt-1 text-xs text-muted">Escape, then Tab leaves the text.{editable && " Ctrl+S saves."}</p>
        </div>
      )}
      {!isText && source && (
        <>
          {entry.size > maxText && <p className="mb-2 text-muted">What is larger than {bytes(maxText)} is not edited here.</p>}
          <Pane>
            <HexView id={id} path={path} size={stored.whole ? data.length : entry.size} />
          </Pane>
        </>
      )}
    </>
  );
}

/** kindFor leaves out the view of what is not the text that it would need. */
function kindFor(name: string, data: Uint8Array, isText: boolean): Kind | undefined {
  const kind = kindOf(name, data);
  return kind && (isText || pictureType(data)) ? kind : undefined;
}

function Pane({ scroll = false, children }: { scroll?: boolean; children: ReactNode }) {
  const around = scroll ? { tabIndex: 0, role: "region", "aria-label": "View" } : {};
  return (
    <div {...around} className={`h-[56vh] ${scroll ? "overflow-auto" : ""}`}>
      <Boundary>
        <Suspense fallback={<Skeleton rows={6} />}>{children}</Suspense>
      </Boundary>
    </div>
  );
}

function Switch({ shown, source, onChoose }: { shown: "source" | "view"; source: string; onChoose: (shown: "source" | "view") => void }) {
  return (
    <div role="group" aria-label="Show" className="mb-2 flex gap-1">
      {(["view", "source"] as const).map((one) => (
        <Button key={one} kind={one === shown ? "plain" : "bare"} aria-pressed={one === shown} onClick={() => onChoose(one)}>
          {one === "view" ? "View" : source}
        </Button>
      ))}
    </div>
  );
}

function View({ kind, name, data, text }: { kind: Exclude<Kind, "page">; name: string; data: Uint8Array; text: string | undefined }) {
  if (kind === "picture") return <Picture data={text ?? data} type={pictureType(data) ?? "image/svg+xml"} alt={name} />;
  if (kind === "table") return <TableView name={name} text={text ?? ""} />;
  if (kind === "notebook") return <Notebook text={text ?? ""} />;
  return <Markdown text={text ?? ""} />;
}

/** A page of HTML as it is stored. It runs nothing, loads nothing, and has no origin: the daemon's answer says so, and the frame too. */
function Page({ id, path, changed }: { id: string; path: string; changed: boolean }) {
  return (
    <div className="flex h-full flex-col gap-1">
      <iframe sandbox="" title={`Page: ${plain(path)}`} src={pageURL(id, path)} className="min-h-0 w-full flex-1 rounded border border-line bg-[#fff]" />
      <p className="text-xs text-muted">{changed && "This is what is saved; your changes are not in it. "}Its scripts do not run, it loads nothing from elsewhere, and its links lead nowhere. To use it as a page, serve it in the session and open its port.</p>
    </div>
  );
}

/** What a save would change. */
function Review({ name, stored }: { name: string; stored: Stored }) {
  return (
    <>
      <p className="mb-2 text-muted">This is what changes. Save writes it; Back goes on with the text.</p>
      <Pane>
        <Diff name={name} before={stored.before} after={stored.now} label="Changes" />
      </Pane>
    </>
  );
}

/** Another has deleted the file: the text can be saved all the same. */
function Deleted({ onBack, onMake }: { onBack: () => void; onMake: () => void }) {
  return (
    <>
      <p role="alert" className="mb-2">
        The file was deleted meanwhile, and nothing was saved. Your text is still here.
      </p>
      <div className="mt-3 flex flex-wrap justify-end gap-2">
        <Button onClick={onBack}>Back to the text</Button>
        <Button kind="main" onClick={onMake}>
          Make it anew
        </Button>
      </div>
    </>
  );
}

/** What another has made of the file, against what is here, and the choice what becomes of it. */
function Meanwhile({ name, theirs, mine, onChoose }: { name: string; theirs: Uint8Array; mine: string; onChoose: (mine: boolean) => void }) {
  const file = useMemo(() => decode(theirs), [theirs]);
  return (
    <>
      <p role="alert" className="mb-2">
        The file was changed meanwhile, and nothing was saved. {file ? "This is what your text would change in what is there now:" : "It is no text any more."}
      </p>
      {file && (
        <Pane>
          <Diff name={name} before={unify(file.text)} after={mine} label="Theirs and yours" />
        </Pane>
      )}
      <div className="mt-3 flex flex-wrap justify-end gap-2">
        <Button onClick={() => onChoose(false)}>Take what is there</Button>
        {file && (
          <Button kind="main" onClick={() => onChoose(true)}>
            Keep my text
          </Button>
        )}
      </div>
    </>
  );
}
