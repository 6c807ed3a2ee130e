import { APIError, type Terminal as Attached } from "@sandkasten/sdk";
import { FitAddon } from "@xterm/addon-fit";
import { SearchAddon } from "@xterm/addon-search";
import { WebLinksAddon } from "@xterm/addon-web-links";
import { Terminal } from "@xterm/xterm";
import "@xterm/xterm/css/xterm.css";
import { useEffect, useRef, useState } from "react";
import { client } from "../api/client.js";
import { overlay } from "../overlays/open.js";
import { Act } from "../ui/act.js";
import { Button, look } from "../ui/button.js";
import { write } from "../ui/copy.js";
import { Dialog } from "../ui/dialog.js";
import { Search } from "../ui/field.js";
import { terminalKeys } from "../ui/keys.js";
import { nonce } from "../ui/nonce.js";
import { ErrorNote, Skeleton } from "../ui/notes.js";
import { store } from "../ui/store.js";
import { plain } from "../ui/text.js";
import { themeChanged } from "../ui/theme.js";

// The terminal makes style elements of its own, which the page's policy allows with the nonce.
const make = Document.prototype.createElement;
Document.prototype.createElement = function (this: Document, tag: string, options?: ElementCreationOptions) {
  const made = make.call(this, tag, options);
  if (made instanceof HTMLStyleElement) made.nonce = nonce;
  return made;
} as typeof make;

// Of colours that are not of its table it makes style attributes, which the policy refuses as text and allows as properties.
const set = Element.prototype.setAttribute;
HTMLElement.prototype.setAttribute = function (this: HTMLElement, name: string, value: string) {
  if (name === "style") this.style.cssText = value;
  else set.call(this, name, value);
};

function colours() {
  const style = getComputedStyle(document.documentElement);
  const of = (name: string) => style.getPropertyValue(name).trim();
  // light-dark() is resolved where a colour is used.
  const probe = document.body.appendChild(document.createElement("span"));
  const resolve = (name: string) => {
    probe.style.color = of(name);
    return getComputedStyle(probe).color;
  };
  const theme = { background: resolve("--sunk"), foreground: resolve("--text"), cursor: resolve("--accent"), selectionBackground: resolve("--line") };
  probe.remove();
  return theme;
}

// Which terminals the page has had in a session, so that they are there after a reload.
const remembered = (id: string): string[] => JSON.parse(sessionStorage.getItem(`terminals ${id}`) ?? "[]") as string[];
const remember = (id: string, ids: string[]) => sessionStorage.setItem(`terminals ${id}`, JSON.stringify(ids));

/** readAloud says whether terminals keep their text where screen readers find it, which costs time. This browser remembers it. */
const readAloud = store(localStorage.getItem("screen reader") === "on");

function setReadAloud(on: boolean) {
  if (on) localStorage.setItem("screen reader", "on");
  else localStorage.removeItem("screen reader");
  readAloud.set(on);
}

/** isTyping says whether the focus is where somebody writes, from where a terminal does not take it. */
const isTyping = () => document.activeElement?.closest("[role=dialog], :is(input, textarea, select, [contenteditable]):not([data-terminal] *)") != null;

/** A terminal that the page shows: key is the page's name of it, id the daemon's, once it has one. */
interface Shown {
  key: string;
  id?: string | undefined;
}

const fresh = (): Shown => ({ key: crypto.getRandomValues(new Uint32Array(2)).join("-") });

const known = (ids: string[]): Shown[] => ids.map((id) => ({ key: id, id }));

/** running gives the terminals that the session has, which another tab or page may have opened. */
async function running(id: string): Promise<Shown[]> {
  const execs = await (await client.getSession(id)).execs();
  return known(execs.filter((one) => one.tty && one.state === "running").map((one) => one.execId));
}

/** The terminals of a session: those that this tab has had, or else those that run. A new one only where there is none. */
export default function TerminalTab({ id }: { id: string }) {
  const [first, setFirst] = useState<Shown[] | undefined>(() => (remembered(id).length > 0 ? known(remembered(id)) : undefined));
  useEffect(() => {
    if (first) return;
    let gone = false;
    void running(id)
      .catch((): Shown[] => []) // what is wrong shows in the terminal that is opened
      .then((found) => gone || setFirst(found.length > 0 ? found : [fresh()]));
    return () => void (gone = true);
  }, [id, first]);
  return first ? <Terminals id={id} first={first} /> : <Skeleton rows={3} />;
}

function Terminals({ id, first }: { id: string; first: Shown[] }) {
  const [open, setOpen] = useState(first);
  const [current, setCurrent] = useState(open[0]?.key);
  const [finding, setFinding] = useState<string>();
  const [error, setError] = useState<unknown>();
  const reading = readAloud.use();
  const bar = useRef<HTMLDivElement>(null);
  const change = (next: (all: Shown[]) => Shown[]) =>
    setOpen((all) => {
      const changed = next(all);
      remember(id, changed.flatMap((one) => one.id ?? []));
      return changed;
    });
  const add = () => {
    const one = fresh();
    change((all) => [...all, one]);
    setCurrent(one.key);
  };
  const close = async (gone: Shown) => {
    const at = open.indexOf(gone);
    change((all) => all.filter((one) => one.key !== gone.key));
    if (gone.key === current) setCurrent(open[at === 0 ? 1 : at - 1]?.key);
    if (gone.id === undefined) return;
    try {
      await (await client.getSession(id)).processes.get(gone.id).kill();
    } catch (err) {
      if (!(err instanceof APIError && err.status === 404)) setError(err);
    }
  };
  return (
    <div className="flex h-full flex-col">
      <div ref={bar} className="flex flex-wrap items-center gap-1 px-4 py-1">
        {open.map((one, index) => (
          <span key={one.key} className={`inline-flex items-center rounded ${one.key === current ? "bg-sunk" : ""}`}>
            <Button kind="bare" aria-pressed={one.key === current} onClick={() => setCurrent(one.key)}>
              Terminal {index + 1}
            </Button>
            <button type="button" title="Close it, and end its program" aria-label={`Close terminal ${index + 1}`} className="px-2 text-muted hover:text-text" onClick={() => void close(one)}>
              {"\u00d7"}
            </button>
          </span>
        ))}
        <Act kind="bare" onClick={add}>
          New terminal
        </Act>
        <span className="ml-auto flex flex-wrap items-center gap-3">
          <label className="flex items-center gap-1.5 text-muted">
            <input type="checkbox" checked={reading} onChange={(event) => setReadAloud(event.target.checked)} />
            For a screen reader
          </label>
          <Button kind="bare" disabled={current === undefined} title={`Keys: ${terminalKeys.KeyF.keys}`} onClick={() => setFinding(current)}>
            Find in it
          </Button>
        </span>
      </div>
      <ErrorNote error={error} />
      <div className="min-h-0 flex-1">
        {open.length === 0 && <p className="p-4 text-muted">No terminal is open. Closing one ends its program; leaving the page does not.</p>}
        {open.map((one) => (
          <div key={one.key} hidden={one.key !== current} className="h-full">
            <One
              session={id}
              terminal={one.id}
              shown={one.key === current}
              finding={finding === one.key}
              onFinding={(on) => setFinding(on ? one.key : undefined)}
              onLeave={() => bar.current?.querySelector<HTMLElement>("[aria-pressed=true]")?.focus()}
              onAttach={(attached) => change((all) => all.map((other) => (other.key === one.key ? { ...other, id: attached } : other)))}
            />
          </div>
        ))}
      </div>
      <p id={wayOut} hidden={open.length === 0} className="px-4 py-1 text-xs text-muted">
        {terminalKeys.Enter.keys} leaves the terminal, for its buttons. What else is typed is for the program.
      </p>
    </div>
  );
}

/** The id of what says how to leave a terminal by keyboard. */
const wayOut = "terminal-way-out";

/** How many bytes may wait to be drawn before the next ones are asked for. */
const ahead = 512 << 10;

/** How long until the next attempt when the connection has broken. */
const pauseMs = 1000;
/** How long it takes a dialog to give the focus back to where it was opened, which is not wanted where it led to a terminal. */
const returnMs = 50;
/** How much may be typed before a terminal is there, or is there again. */
const mostEarly = 4096;

interface OneProps {
  session: string;
  terminal: string | undefined;
  shown: boolean;
  finding: boolean;
  onFinding: (on: boolean) => void;
  onLeave: () => void;
  onAttach: (id: string) => void;
}

function One({ session, terminal, shown, finding, onFinding, onLeave, onAttach }: OneProps) {
  const box = useRef<HTMLDivElement>(null);
  const fit = useRef<FitAddon>(null);
  const search = useRef<SearchAddon>(null);
  const xterm = useRef<Terminal>(null);
  // Whether it has had the focus since it is shown, and whether something that led to it lay over it first.
  const had = useRef(false);
  const covered = useRef(false);
  const over = overlay.use() !== undefined;
  const reading = readAloud.use();
  const [error, setError] = useState<unknown>();
  const [note, setNote] = useState<string>();
  const [uncopied, setUncopied] = useState(false);
  const [link, setLink] = useState<string>();

  useEffect(() => {
    const place = box.current;
    if (!place) return;
    // Of a program's own links (OSC 8).
    const linkHandler = { activate: (event: MouseEvent, address: string) => isFollowed(event) && setLink(webAddress(address)) };
    const screen = new Terminal({ linkHandler, allowProposedApi: false, fontSize: 13, scrollback: 5000, theme: colours(), screenReaderMode: readAloud.get() });
    const fitting = new FitAddon();
    const searching = new SearchAddon();
    screen.loadAddon(fitting);
    screen.loadAddon(searching);
    screen.loadAddon(new WebLinksAddon(follow, { urlRegex: addresses }));
    screen.attachCustomKeyEventHandler((event) => {
      if (event.type !== "keydown" || !event.ctrlKey || !event.shiftKey) return true;
      switch (event.code) {
        case "KeyC":
          if (screen.hasSelection()) void write(screen.getSelection()).then(() => setUncopied(false), () => setUncopied(true));
          break;
        case "KeyF":
          onFinding(true);
          break;
        case "Enter":
        case "NumpadEnter":
          onLeave();
          break;
        default:
          return true; // the browser pastes on Ctrl+Shift+V by itself
      }
      event.preventDefault();
      return false;
    });
    screen.open(place);
    screen.textarea?.setAttribute("aria-describedby", wayOut);
    fitting.fit();
    xterm.current = screen;
    fit.current = fitting;
    search.current = searching;
    const ending = new AbortController();
    const { signal } = ending;
    let attached: Attached | undefined;
    let early = ""; // what is typed before the program is there, or is there again
    void (async () => {
      let id = terminal;
      let seq: number | undefined;
      while (!signal.aborted) {
        try {
          const found = await client.getSession(session);
          const size = { rows: screen.rows, cols: screen.cols, signal };
          if (id === undefined) {
            attached = await found.openTerminal({ ...size, term: "xterm-256color" });
          } else {
            attached = await found.attachTerminal(id, seq === undefined ? size : { ...size, sinceSeq: seq });
          }
          if (signal.aborted) return attached.close();
          setNote(undefined);
          setError(undefined);
          if (id === undefined) onAttach(attached.id);
          id = attached.id;
          if (early) attached.write(early);
          early = "";
          let waiting = 0;
          for await (const data of attached) {
            waiting += data.length;
            const drawn = new Promise<void>((done) => screen.write(data, done)).then(() => (waiting -= data.length));
            if (waiting > ahead) await drawn;
          }
          if (attached.exitCode !== undefined) return setNote(`Its program has ended with ${attached.exitCode}. Close this terminal, or open a new one.`);
        } catch (err) {
          if (signal.aborted) return;
          if (err instanceof APIError && err.status === 404 && id !== undefined) {
            // The program has ended meanwhile, and the daemon has forgotten it.
            screen.write("\r\n\x1b[2mThe program that ran here has ended; this is a new one.\x1b[0m\r\n");
            id = seq = undefined;
            early = ""; // it was typed for that one
            continue;
          }
          if (err instanceof APIError && err.status < 500 && err.status !== 429) return setError(err);
        }
        seq = attached?.seq ?? seq;
        attached = undefined;
        setNote("The connection has broken; coming back to it.");
        await new Promise((go) => setTimeout(go, pauseMs));
      }
    })();
    /** reaches does something with the terminal, and says whether it is there. */
    const reaches = (act: (one: Attached) => void) => {
      try {
        if (attached) act(attached);
        return attached !== undefined;
      } catch {
        return false; // the connection has just broken
      }
    };
    const typed = screen.onData((text) => {
      if (!reaches((one) => one.write(text))) early = (early + text).slice(0, mostEarly);
    });
    const resized = screen.onResize(({ rows, cols }) => void reaches((one) => one.resize(rows, cols)));
    const watch = new ResizeObserver(() => place.offsetParent && fitting.fit());
    watch.observe(place);
    const recolour = () => (screen.options.theme = colours());
    themeChanged.addEventListener("change", recolour);
    return () => {
      ending.abort();
      themeChanged.removeEventListener("change", recolour);
      watch.disconnect();
      typed.dispose();
      resized.dispose();
      attached?.close();
      screen.dispose();
    };
    // One terminal for the life of this box: its id is told to the parent, and comes back as another property.
    // eslint-disable-next-line react-hooks/exhaustive-deps
  }, [session]);

  useEffect(() => {
    if (shown) fit.current?.fit();
  }, [shown, finding, uncopied]);

  useEffect(() => {
    if (!shown || had.current) return;
    const take = () => {
      had.current = true;
      if (!isTyping()) xterm.current?.focus();
    };
    if (over) {
      covered.current = true;
      return;
    }
    if (!covered.current) return take();
    const timer = setTimeout(take, returnMs);
    return () => clearTimeout(timer);
  }, [shown, over]);

  useEffect(() => () => void (had.current = covered.current = false), [shown]);

  useEffect(() => {
    if (xterm.current) xterm.current.options.screenReaderMode = reading;
  }, [reading]);

  return (
    <div className="flex h-full flex-col">
      <ErrorNote error={error} />
      {note && (
        <p role="status" className="px-4 py-1 text-muted">
          {note}
        </p>
      )}
      {uncopied && (
        <p role="alert" className="px-4 py-1 text-bad">
          The browser has refused to copy. Use its own menu on what is selected.
        </p>
      )}
      {finding && (
        <Find
          onFind={(text, back) => (back ? search.current?.findPrevious(text) : search.current?.findNext(text)) ?? false}
          onClose={() => {
            search.current?.clearDecorations();
            onFinding(false);
            xterm.current?.focus();
          }}
        />
      )}
      {link && <LinkDialog address={link} onClose={() => setLink(undefined)} />}
      <div ref={box} data-terminal className="min-h-0 min-w-0 flex-1 overflow-hidden bg-sunk p-2" />
    </div>
  );
}

// Addresses that stand in the text.
const addresses = /https?:\/\/[^\s"'<>`{}|\\^]+[^\s"'<>`{}|\\^.,:;!?)\]]/;

/** isFollowed says whether a click follows a link: with Ctrl or Cmd only, since what a program prints may want to be clicked. */
const isFollowed = (event: MouseEvent) => event.ctrlKey || event.metaKey;

function follow(event: MouseEvent, address: string): void {
  if (isFollowed(event)) window.open(address, "_blank", "noopener,noreferrer");
}

/** webAddress writes an address as the browser reads it, or gives undefined if it leads to no web page. */
function webAddress(address: string): string | undefined {
  if (!URL.canParse(address)) return undefined;
  const { protocol, href } = new URL(address);
  return protocol === "http:" || protocol === "https:" ? href : undefined;
}

/** Shows where a link of a program leads, whose text may say something else, before it is opened. */
function LinkDialog({ address, onClose }: { address: string; onClose: () => void }) {
  return (
    <Dialog open onClose={onClose} title="Open this address?" light>
      <p className="mb-2">
        <code className="font-mono text-xs break-all">{plain(address)}</code>
      </p>
      <p className="mb-4 text-muted">A program in the session made this link. Its text may name another address.</p>
      <div className="flex justify-end gap-2">
        <Button onClick={onClose}>Stay here</Button>
        <a className={look("main")} href={address} target="_blank" rel="noopener noreferrer" onClick={onClose}>
          Open
        </a>
      </div>
    </Dialog>
  );
}

function Find({ onFind, onClose }: { onFind: (text: string, back: boolean) => boolean; onClose: () => void }) {
  const [text, setText] = useState("");
  const [found, setFound] = useState(true);
  const find = (back: boolean) => setFound(text === "" || onFind(text, back));
  return (
    <form
      className="flex items-center gap-2 px-4 py-1"
      onSubmit={(event) => {
        event.preventDefault();
        find(false);
      }}
      onKeyDown={(event) => event.key === "Escape" && onClose()}
    >
      <Search label="Find in the terminal" autoFocus value={text} onChange={(event) => setText(event.target.value)} />
      <Button type="submit">Next</Button>
      <Button onClick={() => find(true)}>Previous</Button>
      <span role="status" className="text-muted">
        {!found && "not found"}
      </span>
      <Button kind="bare" onClick={onClose}>
        Close
      </Button>
    </form>
  );
}
