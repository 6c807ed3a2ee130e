import { useQuery } from "@tanstack/react-query";
import { useVirtualizer } from "@tanstack/react-virtual";
import { useRef, useState, type FormEvent } from "react";
import { client } from "../../api/client.js";
import { Button } from "../../ui/button.js";
import { ErrorNote } from "../../ui/notes.js";

const rowBytes = 16;
const rowHeight = 20;
/** What is read at once. */
const pieceBytes = 64 << 10;
/** What can be scrolled through: browsers have no higher elements. */
const pageBytes = 8 << 20;

/** A file of any size as bytes. Only what is looked at is read. */
export function HexView({ id, path, size }: { id: string; path: string; size: number }) {
  const box = useRef<HTMLDivElement>(null);
  const [page, setPage] = useState(0);
  const start = page * pageBytes;
  const rows = Math.ceil(Math.min(pageBytes, size - start) / rowBytes);
  const virtual = useVirtualizer({ count: rows, getScrollElement: () => box.current, estimateSize: () => rowHeight, overscan: 8 });
  const pages = Math.max(1, Math.ceil(size / pageBytes));
  const show = (next: number, row = 0) => {
    setPage(next);
    requestAnimationFrame(() => virtual.scrollToIndex(row, { align: "start" }));
  };
  const go = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    const at = Number(String(new FormData(event.currentTarget).get("offset")).trim());
    if (Number.isSafeInteger(at) && at >= 0 && at < size) show(Math.floor(at / pageBytes), Math.floor((at % pageBytes) / rowBytes));
  };
  const pieces = new Map<number, number[]>();
  for (const { index } of virtual.getVirtualItems()) {
    const at = start + index * rowBytes;
    const piece = Math.floor(at / pieceBytes);
    pieces.set(piece, [...(pieces.get(piece) ?? []), index]);
  }
  return (
    <div className="flex h-full flex-col">
      <div className="flex flex-wrap items-center gap-2 px-4 pb-2">
        <form onSubmit={go} className="flex gap-2">
          <input name="offset" aria-label="Offset" placeholder="offset, as 0x1f0" className="h-8 w-40 rounded border border-line bg-raised px-2 font-mono text-xs placeholder:text-muted" />
          <Button type="submit">Go</Button>
        </form>
        {pages > 1 && (
          <>
            <Button disabled={page === 0} onClick={() => show(page - 1)}>
              Earlier
            </Button>
            <Button disabled={page === pages - 1} onClick={() => show(page + 1)}>
              Later
            </Button>
            <span className="text-muted">
              Part {page + 1} of {pages}
            </span>
          </>
        )}
      </div>
      <div ref={box} tabIndex={0} role="region" aria-label="Bytes" data-wide className="min-h-0 flex-1 overflow-auto bg-sunk px-4 font-mono text-xs">
        <div className="relative min-w-max" style={{ height: virtual.getTotalSize() }}>
          {[...pieces].map(([piece, at]) => (
            <Piece key={piece} id={id} path={path} piece={piece} rows={at} start={start} size={size} />
          ))}
        </div>
      </div>
    </div>
  );
}

function Piece({ id, path, piece, rows, start, size }: { id: string; path: string; piece: number; rows: number[]; start: number; size: number }) {
  const { data, error } = useQuery({
    queryKey: ["bytes", id, path, size, piece],
    staleTime: Infinity,
    gcTime: 10_000,
    queryFn: async () => (await client.getSession(id)).read(path, { offset: piece * pieceBytes, maxBytes: pieceBytes }),
  });
  if (error && !data) return <ErrorNote error={error} />;
  return rows.map((row) => {
    const at = start + row * rowBytes;
    const begin = at - piece * pieceBytes;
    return (
      <div key={row} className="absolute left-0 whitespace-pre" style={{ top: row * rowHeight, height: rowHeight }}>
        <span className="text-muted">{at.toString(16).padStart(8, "0")}</span>
        {"  "}
        {data ? line(data.subarray(begin, begin + rowBytes)) : ""}
      </div>
    );
  });
}

function line(bytes: Uint8Array): string {
  const shown = Array.from(bytes, (b) => (b >= 32 && b < 127 ? String.fromCharCode(b) : ".")).join("");
  const hex = Array.from(bytes, (b) => b.toString(16).padStart(2, "0")).join(" ");
  return `${hex.padEnd(rowBytes * 3)} ${shown}`;
}
