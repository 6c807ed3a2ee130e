/** A status by shape and colour together, so that it needs neither. */
const looks: Record<string, { colour: string; shape: string }> = {
  running: { colour: "text-good", shape: "\u25cf" },
  creating: { colour: "text-accent", shape: "\u25d0" },
  starting: { colour: "text-accent", shape: "\u25d0" },
  stopping: { colour: "text-warn", shape: "\u25d1" },
  paused: { colour: "text-warn", shape: "\u2016" },
  stopped: { colour: "text-muted", shape: "\u25a0" },
  failed: { colour: "text-bad", shape: "\u2715" },
  crashed: { colour: "text-bad", shape: "\u2715" },
};

export function Status({ of }: { of: string }) {
  const { colour, shape } = looks[of] ?? { colour: "text-muted", shape: "\u25cb" };
  return (
    <span className="inline-flex items-center gap-1.5">
      <span aria-hidden className={`inline-block w-3 text-center ${colour}`}>
        {shape}
      </span>
      {of}
    </span>
  );
}
