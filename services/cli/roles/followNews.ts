/**
 * Sends the console's open pages what changes: agents and deliveries, which have feeds, and what is
 * polled because it has none.
 */
import type { ConsoleSource } from "../../../core/console/ConsoleSource.ts";
import type { TimeShape } from "../../../core/time/Time.ts";
import type { ReadPorts } from "../../wiring/ReadPorts.ts";

/** Hosts, dead letters and connections have no feed, so they are polled while a page is open. */
const OVERVIEW_MS = 3_000;
/** As many as are shown at once. A change among later ones is noticed only by their number. */
const CONNECTIONS_POLLED = 100;

interface NewsParts {
  readonly ports: Pick<ReadPorts, "deliveries" | "feed">;
  readonly time: Pick<TimeShape, "after">;
  /** The hosts, and the number of dead letters. */
  readonly standing: () => Promise<object>;
  readonly connectionsOf: ConsoleSource["connections"];
}

/** As `ConsoleSource.follow`. */
export function followNews(
  { ports, time, standing, connectionsOf }: NewsParts,
  ...[wanted, tell]: Parameters<ConsoleSource["follow"]>
): () => void {
  const ended = new AbortController();
  const { signal } = ended;
  const filter = wanted === undefined ? {} : { className: wanted.className, name: wanted.name };
  let again = (): void => undefined;
  const follow = (): void => {
    const failed = (): void => {
      if (!signal.aborted) again = time.after(OVERVIEW_MS, follow);
    };
    ports.feed
      .follow(filter, (id, { seq }) => tell({ agent: [id.class, id.name], seq }), {
        signal,
        onFailed: failed,
      })
      .catch(failed);
  };
  follow();
  const stopDeliveries = ports.deliveries.follow((deliveries) => tell({ deliveries }));
  const cancels: Array<() => void> = [];
  /** `changed` is called with undefined when the broker has not answered. */
  const poll = (read: () => Promise<unknown>, changed: (found: unknown) => void): void => {
    const place = cancels.push(() => undefined) - 1;
    let last: string | undefined;
    const look = async (): Promise<void> => {
      const found = await read().catch(() => undefined);
      if (signal.aborted) return;
      const text = JSON.stringify(found);
      if (text !== last) changed(found);
      last = text;
      cancels[place] = time.after(OVERVIEW_MS, () => void look());
    };
    void look();
  };
  poll(standing, (overview) => tell(overview === undefined ? { unreachable: true } : { overview }));
  if (wanted?.connections === true)
    poll(
      () => connectionsOf({ ...wanted, limit: CONNECTIONS_POLLED, skip: 0 }),
      (found) => found !== undefined && tell({ connections: true }),
    );
  return () => {
    ended.abort();
    for (const cancel of cancels) cancel();
    again();
    stopDeliveries();
  };
}
