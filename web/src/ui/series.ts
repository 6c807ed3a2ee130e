/** Samples over time, as a chart wants them. */

/** A sample that is later than so many steps after the one before begins anew: nothing was recorded between. */
const hole = 2.5;

export interface Series<T> {
  times: number[];
  samples: (T | undefined)[];
}

/** series has a hole where there are no samples. */
export function series<T extends { at: string }>(samples: T[], step: number): Series<T> {
  const out: Series<T> = { times: [], samples: [] };
  for (const sample of samples) {
    const at = Date.parse(sample.at) / 1000;
    const before = out.times.at(-1);
    if (before !== undefined && at - before > step * hole) {
      out.times.push(before + step);
      out.samples.push(undefined);
    }
    out.times.push(at);
    out.samples.push(sample);
  }
  return out;
}

/** For how long a history is shown, with the seconds between its samples. */
export const spans = { "the last hour": 10, "the last day": 60 } as const;
export type Span = keyof typeof spans;
