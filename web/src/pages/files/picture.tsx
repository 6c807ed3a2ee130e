import { useEffect, useState } from "react";
import { plain } from "../../ui/text.js";

/** A small file can make a picture that takes gigabytes when it is drawn. */
const maxPixels = 50_000_000;

/** A picture. An element img runs no script and loads nothing else, also of an SVG. */
export function Picture({ data, type, alt }: { data: Uint8Array | string; type: string; alt: string }) {
  const [shown, setShown] = useState<{ url: string; width: number; height: number } | "large" | "broken">();
  useEffect(() => {
    const url = URL.createObjectURL(new Blob([data as Uint8Array<ArrayBuffer> | string], { type }));
    const probe = new Image();
    // The size is known before a pixel is.
    probe.onload = () => setShown(probe.naturalWidth * probe.naturalHeight > maxPixels ? "large" : { url, width: probe.naturalWidth, height: probe.naturalHeight });
    probe.onerror = () => setShown("broken");
    probe.src = url;
    return () => {
      probe.onload = probe.onerror = null;
      URL.revokeObjectURL(url);
      setShown(undefined);
    };
  }, [data, type]);
  if (!shown) return <div aria-busy="true" aria-label="Loading" className="h-40 rounded bg-sunk" />;
  if (typeof shown === "string") return <p className="text-muted">{shown === "large" ? `This picture has more than ${maxPixels / 1e6} million pixels and is not drawn.` : "The browser cannot draw this picture."}</p>;
  return (
    <figure className="flex flex-col items-start gap-1">
      <img src={shown.url} alt={plain(alt)} className="max-w-full bg-[#fff]" />
      {shown.width > 0 && (
        <figcaption className="text-xs text-muted">
          {shown.width} {"\u00d7"} {shown.height}
        </figcaption>
      )}
    </figure>
  );
}
