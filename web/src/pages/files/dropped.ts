/** Files that are to go into a directory, by their paths below it, and directories that have none. */
export interface Dropped {
  files: { path: string; file: File }[];
  dirs: string[];
}

/** chosen gives the files of an input, which have paths if it takes directories. */
export function chosen(files: Iterable<File>): Dropped {
  return { dirs: [], files: [...files].map((file) => ({ path: file.webkitRelativePath || file.name, file })) };
}

/** dropped goes through the directories of a drop. It must be called within the event: later there is nothing any more. */
export async function dropped(data: DataTransfer): Promise<Dropped> {
  const found: Dropped = { files: [], dirs: [] };
  const entries = [...data.items].filter(({ kind }) => kind === "file").map((item) => item.webkitGetAsEntry() ?? item.getAsFile());
  for (const entry of entries) {
    if (entry instanceof File) found.files.push({ path: entry.name, file: entry });
    else if (entry) await walk(entry, found);
  }
  return found;
}

async function walk(entry: FileSystemEntry, found: Dropped): Promise<void> {
  const path = entry.fullPath.replace(/^\//, "");
  if (entry.isFile) {
    const file = await new Promise<File>((done, fail) => (entry as FileSystemFileEntry).file(done, fail));
    found.files.push({ path, file });
    return;
  }
  const reader = (entry as FileSystemDirectoryEntry).createReader();
  let empty = true;
  for (;;) {
    // A browser gives some of the entries at a time, and none at the end.
    const some = await new Promise<FileSystemEntry[]>((done, fail) => reader.readEntries(done, fail));
    if (some.length === 0) break;
    empty = false;
    for (const one of some) await walk(one, found);
  }
  if (empty) found.dirs.push(path);
}
