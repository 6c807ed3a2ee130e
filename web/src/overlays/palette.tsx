/** The command palette: pages, sessions and what can be done, found by typing a part of it. */
import { Dialog as Base } from "@base-ui/react/dialog";
import { useQuery } from "@tanstack/react-query";
import { useNavigate, useParams } from "@tanstack/react-router";
import type { SessionInfo } from "@sandkasten/sdk";
import { useEffect, useId, useMemo, useState, type KeyboardEvent } from "react";
import { changeSessions, isOver, verbsOf } from "../api/acts.js";
import { client } from "../api/client.js";
import { keys as queries, listSessions } from "../api/live.js";
import { leave, useWriter } from "../api/me.js";
import { usePlaces } from "../places.js";
import { tabKey, tabs } from "../router.js";
import { Kbd, singleKeys } from "../ui/keys.js";
import { lastUndo } from "../ui/notice.js";
import { Status } from "../ui/status.js";
import { plain } from "../ui/text.js";
import { changeTheme } from "../ui/theme.js";
import { close, open } from "./open.js";

interface Choice {
  id: string;
  name: string;
  /** What it is found by beside its name. */
  words?: string | undefined;
  keys?: string | undefined;
  session?: SessionInfo | undefined;
  run: () => void;
}

interface Group {
  name: string;
  choices: Choice[];
}

/** How many sessions are shown at a time, and how many before anything is typed. */
const mostSessions = 50;
const recentSessions = 5;

/** The letters of word in their order, with others between them. */
function scattered(name: string, word: string): boolean {
  let from = 0;
  for (const letter of word) {
    from = name.indexOf(letter, from) + 1;
    if (from === 0) return false;
  }
  return true;
}

/**
 * rank is how well name fits what was typed: 0 not at all. Words may stand anywhere. Fuzzy lets
 * letters in their order do as well: of ids, which have all letters, they would find anything.
 */
function rank(name: string, others: string, typed: readonly string[], fuzzy: boolean): number {
  let sum = 1;
  for (const word of typed) {
    const at = name.indexOf(word);
    if (at === 0) sum += 8;
    else if (at > 0) sum += /[\s._:/-]/.test(name[at - 1] ?? "") ? 6 : 4;
    else if (others.includes(word)) sum += 2;
    else if (fuzzy && word.length > 1 && scattered(name, word)) sum += 1;
    else return 0;
  }
  return sum;
}

const best = (choices: Choice[], typed: readonly string[]) =>
  choices
    .map((one) => ({ one, fit: rank(one.name.toLowerCase(), one.words?.toLowerCase() ?? "", typed, !one.session) }))
    .filter(({ fit }) => fit > 0)
    .sort((a, b) => b.fit - a.fit)
    .map(({ one }) => one);

/** useGroups is all that can be chosen, but for sessions. */
function useGroups(): Group[] {
  const navigate = useNavigate();
  const writer = useWriter();
  const places = usePlaces();
  const { id } = useParams({ strict: false });
  const { data: session } = useQuery({ queryKey: queries.session(id ?? ""), queryFn: async () => (await client.getSession(id ?? "")).info, enabled: id !== undefined });
  const undo = lastUndo();
  const groups: Group[] = [];
  if (session) {
    const called = plain(session.name ?? session.id.slice(0, 8));
    const can = writer && !isOver(session);
    const acts: Choice[] = [
      ...verbsOf(session).map((verb) => ({ id: verb, name: `${verb[0]?.toUpperCase()}${verb.slice(1)} ${called}`, run: () => void changeSessions(verb, [session]) })),
      { id: "snapshot", name: `Snapshot ${called}`, words: "save", run: () => open({ kind: "snapshot", id: session.id }) },
      { id: "fork", name: `Fork ${called}`, run: () => open({ kind: "fork", id: session.id }) },
      { id: "delete", name: `Delete ${called}`, words: "destroy remove", run: () => open({ kind: "delete", sessions: [session] }) },
    ];
    const there: Choice[] = tabs.map((tab, index) => ({ id: `tab-${tab}`, name: `${tab[0]?.toUpperCase()}${tab.slice(1)} of ${called}`, words: "tab", keys: tabKey(index), run: () => void navigate({ to: "/sessions/$id", params: { id: session.id }, search: { tab } }) }));
    groups.push({ name: "This session", choices: [...(can ? acts : []), ...there] });
  }
  groups.push({
    name: "Go to",
    choices: [
      ...places.map((place): Choice => ({ id: place.to, name: place.name, words: "page", keys: `g ${place.key}`, run: () => void navigate({ to: place.to }) })),
      { id: "docs", name: "Documentation", words: "help docs", keys: "g d", run: () => window.location.assign("/docs") },
    ],
  });
  groups.push({
    name: "Do",
    choices: [
      ...(undo ? [{ id: "undo", name: "Undo", keys: "z", run: undo }] : []),
      ...(writer ? [{ id: "new", name: "New session", words: "create make", keys: "n", run: () => open({ kind: "create" }) }] : []),
      { id: "theme", name: "Switch colours", words: "theme dark light mode", run: changeTheme },
      { id: "keys", name: "Keyboard shortcuts", words: "help", keys: "?", run: () => open({ kind: "keys" }) },
      { id: "leave", name: "Sign out", words: "log out leave", run: () => void leave() },
    ],
  });
  return groups;
}

/** useSessions is the sessions among which is chosen, the newest first. */
function useSessions(): Choice[] {
  const navigate = useNavigate();
  const { data } = useQuery({ queryKey: queries.sessions, queryFn: listSessions });
  return useMemo(
    () =>
      [...(data ?? [])]
        .sort((a, b) => b.createdAt.localeCompare(a.createdAt))
        .map((session) => ({
          id: session.id,
          name: plain(session.name ?? session.id),
          words: [session.id, session.image, ...Object.entries(session.labels ?? {}).map(([name, value]) => `${name}=${value}`)].join(" "),
          session,
          run: () => void navigate({ to: "/sessions/$id", params: { id: session.id } }),
        })),
    [data, navigate],
  );
}

/** useFound is what fits the text, and how many sessions fit beside those that are shown. */
function useFound(text: string): { found: Group[]; more: number } {
  const groups = useGroups();
  const sessions = useSessions();
  const typed = text.toLowerCase().split(/\s+/).filter(Boolean);
  const fitting = typed.length === 0 ? sessions : best(sessions, typed);
  const shown = fitting.slice(0, typed.length === 0 ? recentSessions : mostSessions);
  const found = groups.map(({ name, choices }) => ({ name, choices: typed.length === 0 ? choices : best(choices, typed) }));
  return { found: [...found, { name: "Sessions", choices: shown }].filter(({ choices }) => choices.length > 0), more: fitting.length - shown.length };
}

export function Palette() {
  const [text, setText] = useState("");
  const [at, setAt] = useState(0);
  const { found, more } = useFound(text);
  const list = useId();
  const flat = found.flatMap(({ choices }) => choices);
  const chosen = Math.min(at, flat.length - 1);
  const run = (one: Choice | undefined) => {
    if (!one) return;
    close();
    one.run();
  };
  useEffect(() => {
    document.getElementById(`${list}-${chosen}`)?.scrollIntoView({ block: "nearest" });
  }, [list, chosen]);
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.nativeEvent.isComposing) return;
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step !== undefined && flat.length > 0) setAt((chosen + step + flat.length) % flat.length);
    else if (event.key === "Enter") run(flat[chosen]);
    else if (!((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k")) return;
    else close();
    event.preventDefault();
  };
  return (
    <Base.Root open onOpenChange={(next) => !next && close()}>
      <Base.Portal>
        <Base.Backdrop className="fixed inset-0 z-40 bg-[rgb(0_0_0/0.45)]" />
        <Base.Popup className="fixed top-[8vh] left-1/2 z-50 flex max-h-[70vh] w-[calc(100vw-24px)] max-w-xl -translate-x-1/2 flex-col overflow-hidden rounded-lg border border-line bg-raised shadow-xl">
          <Base.Title className="sr-only">Command palette</Base.Title>
          <input
            role="combobox"
            aria-expanded="true"
            aria-controls={list}
            aria-autocomplete="list"
            aria-activedescendant={flat.length > 0 ? `${list}-${chosen}` : undefined}
            aria-label="Command, page or session"
            placeholder="Command, page or session"
            autoComplete="off"
            spellCheck={false}
            className="h-11 w-full shrink-0 border-b border-line bg-transparent px-4 text-base outline-none placeholder:text-muted"
            value={text}
            onChange={(event) => {
              setText(event.target.value);
              setAt(0);
            }}
            onKeyDown={onKeyDown}
          />
          <div id={list} role="listbox" aria-label="What there is" tabIndex={-1} className="min-h-0 overflow-y-auto py-1">
            <Groups groups={found} list={list} chosen={chosen} onChoose={setAt} onRun={run} />
          </div>
          <p role="status" className={flat.length === 0 || more > 0 ? "border-t border-line px-4 py-2 text-muted" : "sr-only"}>
            {flat.length === 0 ? "Nothing fits. Try fewer letters." : more > 0 ? `${more} more sessions: type more of one.` : `${flat.length} fit.`}
          </p>
        </Base.Popup>
      </Base.Portal>
    </Base.Root>
  );
}

function Groups({ groups, list, chosen, onChoose, onRun }: { groups: Group[]; list: string; chosen: number; onChoose: (index: number) => void; onRun: (one: Choice) => void }) {
  const withKeys = singleKeys.use();
  let index = 0;
  return groups.map(({ name, choices }) => (
    <div key={name} role="group" aria-label={name}>
      <div aria-hidden className="px-4 pt-2 pb-1 text-xs text-muted">
        {name}
      </div>
      {choices.map((one) => {
        const mine = index++;
        return (
          <div
            key={one.id}
            id={`${list}-${mine}`}
            role="option"
            aria-selected={mine === chosen}
            className={`mx-1 flex h-8 cursor-pointer items-center gap-3 rounded px-3 ${mine === chosen ? "bg-sunk text-text" : ""}`}
            onMouseMove={() => mine !== chosen && onChoose(mine)}
            onClick={() => onRun(one)}
          >
            <bdi className={`truncate ${one.session ? "font-mono text-xs" : ""}`}>{one.name}</bdi>
            <span className="ml-auto flex shrink-0 items-center gap-3 text-muted">
              {one.session && <bdi className="hidden max-w-40 truncate sm:inline">{plain(one.session.image)}</bdi>}
              {one.session && <Status of={one.session.status} />}
              {withKeys && one.keys && <Kbd>{one.keys}</Kbd>}
            </span>
          </div>
        );
      })}
    </div>
  ));
}
