/**
 * The port `Leases` in a worker: asks the control process, which keeps the worker's leases while it
 * stalls and hands them to its successor (`LeaseKeeper`). Reading stays the worker's own. A process
 * in which code has replaced `JSON` asks for nothing, so it writes nothing more and is soon ended
 * (`serveLeases`).
 */
import { BrokerUnavailable, NotPermitted } from "../../core/bus/Bus.ts";
import type {
  ClaimResult,
  LeaseChange,
  LeasesShape,
  RenewResult,
} from "../../core/lease/Leases.ts";
import type { TimeShape } from "../../core/time/Time.ts";
import { inBatches } from "./inBatches.ts";
import type { FromWorker, LeaseAnswer, LeaseRequest } from "./messages.ts";

/**
 * Part of the TTL after which a request that is not answered has failed: the control process is
 * frozen or gone. The next renewal comes before the lease is over.
 */
const ANSWER_TTLS_MAX = 0.3;

export interface LeaseChannel {
  readonly send: (message: FromWorker) => void;
  readonly onAnswer: (f: (answer: LeaseAnswer) => void) => void;
  readonly onChange: (f: (change: LeaseChange) => void) => void;
  /** Resolves when the control process has ended. */
  readonly closed: Promise<unknown>;
}

/** Each kind of request without its number. */
type Unnumbered<A> = A extends { readonly n: number } ? Omit<A, "n"> : never;

/** `own`: leases over this process's own connection. */
export function channelLeases(
  own: Pick<LeasesShape, "ttlMs" | "list">,
  { send, onAnswer, onChange, closed }: LeaseChannel,
  time: Pick<TimeShape, "after">,
): LeasesShape {
  const waiting = new Map<number, (answer: LeaseAnswer) => void>();
  const watchers = new Set<(change: LeaseChange) => void>();
  /** Live keys, for a watch that begins when the first has been listed. */
  const view = new Map<string, LeaseChange>();
  const request = inBatches<LeaseRequest>((leases) => send({ leases }));
  let last = 0;
  let isClosed = false;
  let listed: Promise<void> | undefined;
  onAnswer((answer) => waiting.get(answer.n)?.(answer));
  onChange((change) => {
    if (change.value === undefined) view.delete(change.key);
    else view.set(change.key, change);
    for (const watcher of watchers) watcher(change);
  });
  void closed.then(() => {
    isClosed = true;
    for (const [n, answer] of waiting) answer(unavailable(n, GONE));
  });
  const ask = <A>(asked: Unnumbered<LeaseRequest>, timeoutMs?: number): Promise<A> =>
    new Promise((resolve, reject) => {
      if (isClosed) return reject(new BrokerUnavailable({ message: GONE }));
      const n = ++last;
      const answered = (answer: LeaseAnswer): void => {
        if (!waiting.delete(n)) return;
        cancel();
        if ("error" in answer)
          reject(
            new (answer.isRefusal ? NotPermitted : BrokerUnavailable)({ message: answer.error }),
          );
        else resolve(answer.result as A);
      };
      const cancel =
        timeoutMs === undefined
          ? () => undefined
          : time.after(timeoutMs, () => answered(unavailable(n, SILENT)));
      waiting.set(n, answered);
      if (isIntact()) request({ ...asked, n } as LeaseRequest);
    });
  const timeoutMs = own.ttlMs * ANSWER_TTLS_MAX;
  return {
    ttlMs: own.ttlMs,
    list: own.list,
    // A claim may be stored after its caller has given up. It would then be neither renewed nor
    // known.
    claim: (key, value) => ask<ClaimResult>({ ask: "claim", key, value }),
    supersede: (lease, value) => ask<ClaimResult>({ ask: "supersede", lease, value }),
    renew: (lease, value) => ask<RenewResult>({ ask: "renew", lease, value }, timeoutMs),
    release: (lease) => ask<void>({ ask: "release", lease }, timeoutMs).catch(() => undefined),
    watch: async (onEach, signal) => {
      await (listed ??= ask<void>({ ask: "watch" }));
      if (signal.aborted) return;
      for (const change of view.values()) onEach(change);
      watchers.add(onEach);
      signal.addEventListener("abort", () => watchers.delete(onEach), { once: true });
    },
  };
}

/** Everything that is stored and sent is JSON. Channels do not need the global. */
function isIntact(): boolean {
  try {
    return JSON.stringify(JSON.parse('{"n":[1]}')) === '{"n":[1]}';
  } catch {
    return false;
  }
}

const unavailable = (n: number, error: string): LeaseAnswer => ({ n, error, isRefusal: false });

const GONE = "the control process has ended";
const SILENT = "no answer in time: the broker stores nothing, or the control process is frozen";
