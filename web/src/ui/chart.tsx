/** A chart of values over time, and the same in words for who does not see it. */
import { useEffect, useRef, useState, type KeyboardEvent } from "react";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { bytes } from "./table.js";
import { themeChanged } from "./theme.js";

export interface Line {
  name: string;
  /** undefined is a hole. */
  values: (number | undefined)[];
}

interface Props {
  title: string;
  /** Of the values, in seconds since 1970. */
  times: number[];
  lines: Line[];
  /** A bound to draw beside them. */
  limit?: number | undefined;
  /** Whether each value is marked: one that has none beside it is no line. */
  dots?: boolean | undefined;
  show: (value: number) => string;
}

const height = 160;

function colour(name: string): string {
  const probe = document.body.appendChild(document.createElement("span"));
  probe.style.color = `var(--${name})`;
  const found = getComputedStyle(probe).color;
  probe.remove();
  return found;
}

const day = 24 * 60 * 60;
const time = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
const date = new Intl.DateTimeFormat(undefined, { month: "short", day: "numeric" });

/** whens are the names of times on an axis: the date stands where a day begins, and at the first. */
function whens(seconds: number[]): string[] {
  return seconds.map((one, i) => {
    const at = new Date(one * 1000);
    const begins = i === 0 || at.getDate() !== new Date(seconds[i - 1]! * 1000).getDate();
    return begins || one - (seconds[i - 1] ?? one) >= day ? `${time.format(at)}\n${date.format(at)}` : time.format(at);
  });
}

/** Steps of an axis of bytes, which are counted in powers of two. */
const binary = Array.from({ length: 50 }, (_, i) => 2 ** i);

const strokes = ["accent", "warn", "text"];
const keys = ["text-accent", "text-warn", "text-text"];

function options({ lines, limit, dots, show }: Props, width: number, onCursor: (index: number | undefined) => void): uPlot.Options {
  const axis = { stroke: colour("muted"), grid: { stroke: colour("line"), width: 1 }, ticks: { show: false }, font: "12px ui-sans-serif, system-ui, sans-serif" };
  return {
    width,
    height,
    legend: { show: false },
    cursor: { y: false },
    hooks: { setCursor: [({ cursor }) => onCursor(cursor.idx ?? undefined)] },
    scales: { y: { range: (_, __, most) => [0, Math.max(most, limit ?? 0, 1e-9) * 1.05] } },
    axes: [{ ...axis, space: 64, values: (_, splits) => whens(splits) }, { ...axis, size: 72, ...(show === bytes && { incrs: binary }), values: (_, splits) => splits.map(show) }],
    series: [{}, ...lines.map(({ name }, i) => ({ label: name, stroke: colour(strokes[i] ?? "text"), width: 1.5, spanGaps: false, points: { show: dots === true, size: 4 } })), ...(limit ? [{ label: "limit", stroke: colour("bad"), width: 1, dash: [4, 4], points: { show: false } }] : [])],
  };
}

const drawn = ({ times, lines, limit }: Props): uPlot.AlignedData => [times, ...lines.map(({ values }) => values.map((value) => value ?? null)), ...(limit ? [times.map(() => limit)] : [])];

/** said is what a line shows, in words. */
function said({ name, values }: Line, show: (value: number) => string): string {
  const known = values.filter((value) => value !== undefined);
  const last = known.at(-1);
  if (last === undefined) return `${name}: nothing yet`;
  return `${name}: ${show(last)} ${values.at(-1) === undefined ? "last" : "now"}, at most ${show(Math.max(...known))}`;
}

const moment = new Intl.DateTimeFormat(undefined, { month: "short", day: "numeric", hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });

/** saidAt is what a chart shows at one of its times, in words. */
function saidAt({ times, lines, show }: Props, index: number): string {
  const values = lines.map(({ name, values }) => `${name}: ${values[index] === undefined ? "nothing" : show(values[index])}`);
  return `${moment.format((times[index] ?? 0) * 1000)}, ${values.join("; ")}`;
}

/** What a chart shows, in words, with the colour of each line where there are several. */
function Said({ lines, limit, show }: Props) {
  return (
    <span className="text-muted">
      {lines.map((line, i) => (
        <span key={line.name}>
          {i > 0 && "; "}
          {lines.length > 1 && (
            <span aria-hidden className={`${keys[i]} font-bold`}>
              {"\u2014 "}
            </span>
          )}
          {said(line, show)}
        </span>
      ))}
      {limit ? `; limit ${show(limit)}` : null}
    </span>
  );
}

export function Chart(props: Props) {
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot>(null);
  const [at, setAt] = useState<number>();
  const index = at === undefined || at >= props.times.length ? undefined : at;
  const latest = useRef(props);
  latest.current = props;
  const shape = `${props.lines.length} ${props.limit ?? ""} ${props.dots}`;

  useEffect(() => {
    const place = box.current;
    if (!place) return;
    const draw = () => {
      plot.current?.destroy();
      plot.current = new uPlot(options(latest.current, place.clientWidth, setAt), drawn(latest.current), place);
    };
    draw();
    const watch = new ResizeObserver(() => plot.current?.setSize({ width: place.clientWidth, height }));
    watch.observe(place);
    themeChanged.addEventListener("change", draw);
    return () => {
      themeChanged.removeEventListener("change", draw);
      watch.disconnect();
      plot.current?.destroy();
      plot.current = null;
    };
  }, [shape]);

  useEffect(() => plot.current?.setData(drawn(props)), [props]);

  const last = props.times.length - 1;
  const onKeyDown = (event: KeyboardEvent) => {
    const from = index ?? last + 1;
    const to = { ArrowLeft: from - 1, ArrowDown: from - 1, ArrowRight: from + 1, ArrowUp: from + 1, Home: 0, End: last }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    const next = Math.max(0, Math.min(last, to));
    setAt(next);
    plot.current?.setCursor({ left: plot.current.valToPos(props.times[next]!, "x"), top: 0 }, false);
  };

  return (
    <figure className="min-w-0">
      <figcaption className="flex flex-wrap gap-x-3 px-1">
        <span className="font-semibold">{props.title}</span>
        {index === undefined ? <Said {...props} /> : <span className="text-muted">{saidAt(props, index)}</span>}
      </figcaption>
      <div
        role="slider"
        tabIndex={0}
        aria-label={`${props.title}, at a time`}
        aria-valuemin={0}
        aria-valuemax={last}
        aria-valuenow={index ?? last}
        aria-valuetext={saidAt(props, index ?? last)}
        onKeyDown={onKeyDown}
        onBlur={() => plot.current?.setCursor({ left: -10, top: -10 })}
        className="rounded"
      >
        <div ref={box} aria-hidden className="overflow-hidden" style={{ height }} />
      </div>
    </figure>
  );
}
