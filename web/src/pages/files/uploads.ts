import { signedOut, upload, UploadError } from "../../api/client.js";
import { wouldLose } from "../../ui/leave.js";

/** One file on its way into a session. */
export interface Upload {
  key: number;
  path: string;
  size: number;
  sent: number;
  /** Bytes a second. */
  speed: number;
  state: "waiting" | "sending" | "done" | "exists" | "failed";
  problem?: unknown;
}

interface Job extends Upload {
  file: File;
  replace: boolean;
  abort?: AbortController;
}

/** A browser has six connections for the page, and others need some. */
const atOnce = 2;
/** How often what is shown changes, and how often files that arrive are told, in ms. */
const showEvery = 100;
const tellEvery = 1000;

/** What is shown of uploads. */
export interface Shown {
  list: readonly Upload[];
  /** Grows when files have arrived. */
  arrivals: number;
}

/**
 * Uploads are those of one session. They go on while other tabs of the page are shown. A file is sent from the disk piece
 * by piece by the browser: no script has it in memory.
 */
export class Uploads {
  #jobs: Job[] = [];
  #shown: Shown = { list: [], arrivals: 0 };
  #untold = false;
  #told = 0;
  #listeners = new Set<() => void>();
  #timer: ReturnType<typeof setTimeout> | undefined;
  #next = 0;
  readonly #session: string;

  constructor(session: string) {
    this.#session = session;
  }

  subscribe = (listener: () => void) => {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  };

  shown = () => this.#shown;

  add(files: { path: string; file: File }[]): void {
    for (const { path, file } of files) this.#jobs.push({ key: this.#next++, path, file, size: file.size, sent: 0, speed: 0, state: "waiting", replace: false });
    this.#work();
  }

  /** again sends what has failed, or what is there already in its place. */
  again(key: number): void {
    const job = this.#jobs.find((one) => one.key === key);
    if (!job) return;
    Object.assign(job, { replace: job.replace || job.state === "exists", state: "waiting", problem: undefined, sent: 0, speed: 0 });
    this.#work();
  }

  /** drop cancels uploads, and takes those that are over from the list. */
  drop(keys: Iterable<number>): void {
    const unwanted = new Set(keys);
    const gone = this.#jobs.filter(({ key }) => unwanted.has(key));
    this.#jobs = this.#jobs.filter(({ key }) => !unwanted.has(key));
    for (const { abort } of gone) abort?.abort();
    this.#work();
  }

  /** forget cancels all of them, and takes them from the list. */
  forget(): void {
    this.drop(this.#jobs.map(({ key }) => key));
  }

  #work(): void {
    const sending = this.#jobs.reduce((sum, { state }) => sum + Number(state === "sending"), 0);
    let free = atOnce - sending;
    for (const job of this.#jobs) {
      if (free <= 0) break;
      if (job.state !== "waiting") continue;
      free--;
      void this.#send(job);
    }
    this.#show();
  }

  async #send(job: Job): Promise<void> {
    job.state = "sending";
    job.abort = new AbortController();
    let at = performance.now();
    const onProgress = (part: number) => {
      const [sent, now] = [Math.round(part * job.size), performance.now()];
      if (now - at > showEvery) {
        const speed = ((sent - job.sent) * 1000) / (now - at);
        job.speed = job.speed === 0 ? speed : job.speed * 0.7 + speed * 0.3;
        at = now;
        job.sent = sent;
        this.#show();
      }
    };
    try {
      await upload(`/v1/sessions/${this.#session}/fs/raw?path=${encodeURIComponent(job.path)}`, job.file, onProgress, {
        method: "PUT",
        type: "application/octet-stream",
        headers: job.replace ? {} : { "If-None-Match": "*" },
        signal: job.abort.signal,
      });
      Object.assign(job, { state: "done", sent: job.size });
      this.#untold = true;
    } catch (err) {
      const exists = err instanceof UploadError && err.status === 412;
      Object.assign(job, { state: exists ? "exists" : "failed", problem: err });
    }
    this.#work();
  }

  #show(): void {
    this.#timer ??= setTimeout(() => {
      this.#timer = undefined;
      let { arrivals } = this.#shown;
      const busy = this.#jobs.some(({ state }) => state === "sending" || state === "waiting");
      wouldLose(this, busy);
      if (this.#untold && (!busy || performance.now() - this.#told > tellEvery)) {
        arrivals++;
        this.#untold = false;
        this.#told = performance.now();
      }
      this.#shown = { arrivals, list: this.#jobs.map(({ key, path, size, sent, speed, state, problem }) => ({ key, path, size, sent, speed, state, problem })) };
      for (const listener of this.#listeners) listener();
    }, showEvery);
  }
}

const sessions = new Map<string, Uploads>();

// Whoever signs in next neither sees nor goes on with the uploads of the one before.
signedOut.addEventListener("leave", () => {
  for (const uploads of sessions.values()) uploads.forget();
  sessions.clear();
});

export function uploadsOf(session: string): Uploads {
  const uploads = sessions.get(session) ?? new Uploads(session);
  sessions.set(session, uploads);
  return uploads;
}
