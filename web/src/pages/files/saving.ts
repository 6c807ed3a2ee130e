import { AlreadyExistsError, NotFoundError, PreconditionFailedError, type Session } from "@sandkasten/sdk";
import { client } from "../../api/client.js";
import { equal } from "./content.js";

/** The bytes of a file, and the name of the state in which it had them. */
export interface Seen {
  data: Uint8Array;
  etag?: string | undefined;
}

/** etagOf is asked for before the bytes: of a file that changes between the two the bytes are newer, and a save is refused. */
export const etagOf = async (session: Session, path: string) => (await session.stat(path, { follow: true })).etag;

/** readNow gives what is at a path, or undefined if nothing is. */
async function readNow(session: Session, path: string): Promise<Seen | undefined> {
  try {
    const etag = await etagOf(session, path);
    return { etag, data: await session.read(path) };
  } catch (err) {
    if (err instanceof NotFoundError) return undefined;
    throw err;
  }
}

/**
 * saveSeen replaces what was seen last, and nothing else: "nothing" is that there was no file. It gives what is there instead,
 * if that is other bytes or nothing.
 */
export async function saveSeen(id: string, path: string, data: Uint8Array, seen: Seen | "nothing"): Promise<{ saved: Seen } | { theirs: Seen | "nothing" }> {
  const session = await client.getSession(id);
  const save = async (over: Seen | "nothing") => ({ saved: { data, etag: await session.write(path, data, over === "nothing" ? { create: true } : { ifMatch: over.etag ?? "*" }) } });
  try {
    return await save(seen);
  } catch (err) {
    if (!(err instanceof PreconditionFailedError || err instanceof AlreadyExistsError)) throw err;
    const theirs = await readNow(session, path);
    if (!theirs) return { theirs: "nothing" };
    return seen !== "nothing" && equal(theirs.data, seen.data) ? save(theirs) : { theirs };
  }
}
