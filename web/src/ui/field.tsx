import { useEffect, useId, useRef, useState, type InputHTMLAttributes, type ReactNode, type SelectHTMLAttributes } from "react";
import { useHint } from "./keys.js";

const box = "h-8 w-full rounded border border-line bg-raised px-2 text-sm placeholder:text-muted";

function Labelled({ label, hint, problem, id, children }: { label: string; hint?: string | undefined; problem?: string | undefined; id: string; children: ReactNode }) {
  if (label === "") return children; // it has an aria-label
  return (
    <div className="flex flex-col gap-1">
      <label htmlFor={id} className="text-xs text-muted">
        {label}
      </label>
      {children}
      {hint && <p className="text-xs text-muted">{hint}</p>}
      {problem && (
        <p id={`${id}-problem`} role="alert" className="text-xs text-bad">
          {problem}
        </p>
      )}
    </div>
  );
}

type FieldProps = InputHTMLAttributes<HTMLInputElement> & {
  label: string;
  hint?: string;
  /** What is wrong with the value. */
  problem?: string | undefined;
};

export function Field({ label, hint, problem, className = "", ...rest }: FieldProps) {
  const id = useId();
  const wrong = problem ? ({ "aria-invalid": true, "aria-describedby": `${id}-problem` } as const) : {};
  return (
    <Labelled label={label} hint={hint} problem={problem} id={id}>
      <input id={id} className={`${box} ${problem ? "border-bad" : ""} ${className}`} {...wrong} {...rest} />
    </Labelled>
  );
}

/** How long nothing has to be typed until a filter asks. */
const settleMs = 300;

interface FilterProps extends Omit<FieldProps, "value" | "onChange" | "problem"> {
  value: string;
  /** It is told the text when typing has paused, and at once by Enter or when the field is left. */
  onSettle: (text: string) => void;
  /** What is wrong with a text, which is then not told. */
  check?: (text: string) => string | undefined;
}

/** A field by which the daemon is asked: for what was typed, and not for each letter of it. */
export function Filter({ value, onSettle, check, ...rest }: FilterProps) {
  const [typed, setTyped] = useState(value);
  const [paused, setPaused] = useState(true);
  const told = useRef(value);
  const focused = useRef(false);
  const problem = check?.(typed);
  const settle = () => {
    if (problem !== undefined || typed === told.current) return;
    told.current = typed;
    onSettle(typed);
  };
  const newest = useRef(settle);
  useEffect(() => {
    newest.current = settle;
  });
  useEffect(() => {
    const timer = setTimeout(() => {
      setPaused(true);
      newest.current();
    }, settleMs);
    return () => clearTimeout(timer);
  }, [typed]);
  // What it is set to from elsewhere does not come between the letters of who types.
  const follow = () => {
    told.current = value;
    setTyped(value);
  };
  useEffect(() => {
    if (!focused.current) follow();
    // eslint-disable-next-line react-hooks/exhaustive-deps
  }, [value]);
  const leave = () => {
    focused.current = false;
    if (problem === undefined && typed === told.current) follow();
    else settle();
  };
  const type = (text: string) => {
    setPaused(false);
    setTyped(text);
  };
  return <Field {...rest} value={typed} problem={paused ? problem : undefined} onChange={(event) => type(event.target.value)} onFocus={() => (focused.current = true)} onBlur={leave} onKeyDown={(event) => event.key === "Enter" && settle()} />;
}

export function Choice({ label, hint, options, ...rest }: SelectHTMLAttributes<HTMLSelectElement> & { label: string; hint?: string; options: readonly string[] }) {
  const id = useId();
  return (
    <Labelled label={label} hint={hint} id={id}>
      <select id={id} className={box} {...rest}>
        {options.map((option) => (
          <option key={option}>{option}</option>
        ))}
      </select>
    </Labelled>
  );
}

export function Search({ label, ...rest }: InputHTMLAttributes<HTMLInputElement> & { label: string }) {
  const hint = useHint("/");
  return <input type="search" aria-label={label} className={`${box} max-w-72`} {...hint} {...rest} />;
}
