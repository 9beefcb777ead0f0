/**
 * Builds a view of all agents as of an earlier time (`core/query/View`, 8) in memory, and lets a
 * command query it. It reads the journals from their beginnings, and snapshots, bases and the
 * archive if they are trimmed.
 */
import { View } from "../../../core/query/View.ts";
import { counted } from "../../../schemas/counted.ts";
import { addressKey } from "../../../schemas/Address.ts";
import type { ReadPorts } from "../../wiring/ReadPorts.ts";
import { notFound } from "../terminal/CliError.ts";
import type { Progress } from "../terminal/Progress.ts";

interface ViewAtOptions {
  readonly atTimeMs: number;
  readonly progress: Progress;
}

/** Rejects with `CliError` for a time not kept, with `BrokerUnavailable`, and as `use` does. */
export async function withViewAt<A>(
  ports: Pick<ReadPorts, "journal" | "snapshots" | "databases" | "changes" | "namespace">,
  { atTimeMs, progress }: ViewAtOptions,
  use: (view: View) => A,
): Promise<A> {
  const view = new View(ports.databases, ports.namespace, { kept: false, atTimeMs });
  try {
    await view.catchUp({
      changes: ports.changes,
      agents: ports,
      tell: (done, total) => progress.tell(done, total),
    });
    const { trimmed } = view;
    if (trimmed === undefined) return use(view);
    const { agents, example, fromMs } = trimmed;
    throw notFound(
      `There is no answer as of ${new Date(atTimeMs).toISOString()}, because the history of ${counted(agents, "agent")} is trimmed (${addressKey(example)}${agents === 1 ? "" : " and others"}). The earliest possible time is ${new Date(fromMs).toISOString()}. If the events were archived, specify the archive (--archive).`,
    );
  } finally {
    view.close();
  }
}
