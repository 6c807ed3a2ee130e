import { useQuery } from "@tanstack/react-query";
import { useMemo, useRef, useState } from "react";
import { client } from "../../api/client.js";
import { useWriter } from "../../api/me.js";
import { decode, encode, unify } from "./content.js";
import { maxText, readable } from "./kind.js";
import { etagOf, saveSeen, type Seen } from "./saving.js";

/** As many bytes as tell a picture. */
const headBytes = 64;

/** load reads a file, or only its head if it is too large to be shown as anything but bytes. */
async function load(id: string, path: string, name: string): Promise<{ seen: Seen; whole: boolean }> {
  const session = await client.getSession(id);
  const etag = await etagOf(session, path);
  const head = await session.read(path, { maxBytes: headBytes });
  if (head.length < headBytes) return { seen: { data: head, etag }, whole: true };
  const limit = readable(name, head);
  const data = await session.read(path, { maxBytes: limit + 1 });
  return data.length > limit ? { seen: { data: head }, whole: false } : { seen: { data, etag }, whole: true };
}

/** useStored gives a file as it is stored, the text that is to replace it, and what saves that. */
export function useStored(id: string, path: string, name: string, onSave: () => Promise<unknown>) {
  const [text, setText] = useState<string>();
  const [problem, setProblem] = useState<unknown>();
  const [saved, setSaved] = useState(false);
  // The bytes that the user has seen last. Only they are replaced.
  const [seen, setSeen] = useState<Seen>();
  const [theirs, setTheirs] = useState<Seen | "nothing">();
  const saving = useRef(false);
  const writer = useWriter();
  const { data, error, isPending } = useQuery({
    queryKey: ["file", id, path],
    gcTime: 0,
    staleTime: "static", // what is edited is not replaced behind the user, whatever has all that is shown read again
    queryFn: () => load(id, path, name),
  });
  const last = seen ?? data?.seen;
  const bytes = last?.data;
  const whole = data?.whole ?? false;
  const file = useMemo(() => (bytes && whole ? decode(bytes) : undefined), [bytes, whole]);
  const before = useMemo(() => (file ? unify(file.text) : ""), [file]);
  const now = text ?? before;
  const isText = file !== undefined && bytes !== undefined && bytes.length <= maxText;

  const save = async (over: Seen | "nothing" | undefined = last) => {
    if (!file || !over || saving.current) return;
    saving.current = true;
    setProblem(undefined);
    try {
      const done = await saveSeen(id, path, encode(now, file), over);
      if ("theirs" in done) return setTheirs(done.theirs);
      setSeen(done.saved);
      setTheirs(undefined);
      setText((text) => (text === now ? undefined : text)); // what was typed meanwhile is not saved
      setSaved(true);
    } catch (err) {
      return setProblem(err);
    } finally {
      saving.current = false;
    }
    await onSave();
  };
  /** choose ends a conflict: the user has seen theirs, and keeps the text here or takes theirs. */
  const choose = (mine: boolean) => {
    setText(mine ? now : undefined);
    if (theirs !== "nothing") setSeen(theirs);
    setTheirs(undefined);
  };
  /** makeAnew saves the text in place of the file that another has deleted. */
  const makeAnew = () => save("nothing");
  return { problem: error ?? problem, isPending, tag: last?.etag, bytes, whole, file, isText, editable: writer && isText && !file.mixed, before, now, changed: now !== before, saved, theirs: theirs === "nothing" ? theirs : theirs?.data, setText, save: () => save(), choose, makeAnew };
}

export type Stored = ReturnType<typeof useStored>;
