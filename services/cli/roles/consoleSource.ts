/**
 * The console's data. Most of it comes from the commands, which are run with `--json` and whose
 * output is parsed. Data that no command prints (a page of agents, changes) is read from the ports.
 */
import { ConsoleRefusal, type ConsoleSource } from "../../../core/console/ConsoleSource.ts";
import type { JournalEntry } from "../../../core/journal/Journal.ts";
import { HistoryTrimmed } from "../../../core/journal/HistoryTrimmed.ts";
import type { TimeShape } from "../../../core/time/Time.ts";
import { rowObjects } from "../../../core/query/askView.ts";
import { DELIVERY_STATUSES } from "../../../schemas/DeliveryRecord.ts";
import type { ReadPorts } from "../../wiring/ReadPorts.ts";
import { existingClass, findAgent } from "../agents/findAgent.ts";
import { listQuarantined } from "../agents/listQuarantined.ts";
import { deadDrop, deadList, deadRedrive, deadShow } from "../commands/dead.ts";
import type { OwnProcess } from "../serving/ownProcess.ts";
import { listDeliveries, showDelivery } from "../commands/deliveries.ts";
import { diff } from "../commands/diff.ts";
import { connections } from "../commands/connections.ts";
import { fibers } from "../commands/fibers.ts";
import { fork } from "../commands/fork.ts";
import { history } from "../commands/history.ts";
import { listed } from "../commands/list.ts";
import { askHost } from "../commands/query.ts";
import { release } from "../commands/release.ts";
import { redeliverNamed } from "../commands/redeliver.ts";
import { schedules } from "../commands/schedules.ts";
import { sql, StatementTooLong } from "../commands/sql.ts";
import { state } from "../commands/state.ts";
import { top } from "../commands/top.ts";
import { why } from "../commands/why.ts";
import { workflows } from "../commands/workflows.ts";
import { readAgents, readEvent } from "../options/argumentParsers.ts";
import { readPoint, readTime, type Point } from "../options/pointOptions.ts";
import { CliError, EXIT_NOT_FOUND } from "../terminal/CliError.ts";
import type { Terminal } from "../terminal/Terminal.ts";

interface ConsoleSourceParts {
  readonly ports: ReadPorts;
  readonly terminal: Terminal;
  readonly time: TimeShape;
  /** Files that a page may rerun an agent's past with, in the form that it shows. */
  readonly modules: ReadonlyArray<string>;
  readonly own: OwnProcess;
  /** The folder that holds the view of all agents. */
  readonly dataFolder: string;
}

/** Pages of one list come from one read of the journal, unless a long time passes between them. */
const ENTRIES_KEPT_MS = 30_000;
/** A longer statement runs in a separate process, because this process serves other pages too. */
const QUICK_SECONDS = 0.2;
/** Hosts, dead letters and connections have no feed, so they are polled while a page is open. */
const OVERVIEW_MS = 3_000;
/** As many as are shown at once. A change among later ones is noticed only by their number. */
const CONNECTIONS_POLLED = 100;

export function consoleSource(parts: ConsoleSourceParts): ConsoleSource {
  const { ports, terminal, time, modules, dataFolder } = parts;
  const lines = async (run: (capture: Terminal) => Promise<void>): Promise<unknown[]> => {
    const found: unknown[] = [];
    const capture: Terminal = {
      ...terminal,
      out: (line) => void found.push(JSON.parse(line)),
      err: () => undefined,
    };
    await refusing(() => run(capture));
    return found;
  };
  const first = async (run: (capture: Terminal) => Promise<void>): Promise<unknown> =>
    (await lines(run))[0];
  const entries = agentEntries(ports, time);
  const json = true;
  const toTime = (text: string): number => readTime(text, time.nowMs());
  const toPoint = (text: string): Point => readPoint(text, time.nowMs());
  const asOf = <A extends { readonly at?: string | undefined }>(wanted: A) => ({
    ...wanted,
    at: given("at", wanted.at, toPoint),
  });
  const hosts = async () => {
    const shards = new Map<string, number>();
    for (const { value } of await ports.leases.list("shard."))
      shards.set(value, (shards.get(value) ?? 0) + 1);
    return Array.from(shards, ([host, owned]) => ({ host, shards: owned }));
  };
  const connectionsOf: ConsoleSource["connections"] = (wanted) =>
    first((capture) => connections(ports, capture, { ...wanted, json }));
  const checkModule = (module: string): void => {
    if (modules.includes(module)) return;
    throw new ConsoleRefusal(400, `module=${module}: the console was started without it (--rerun ${module})`); // prettier-ignore
  };
  const onFork = async (command: string, module: string, ids: ReadonlyArray<string>) => {
    checkModule(module);
    return parts.own(command, ["--on-fork", "--json", "--module", module, "--", ...ids]);
  };
  const standing = async () => ({ hosts: await hosts(), dead: await ports.deadLetters.count() });
  return {
    hosts,
    overview: async () => {
      const classes = new Map<string, number>();
      for (const { id } of await entries.now())
        classes.set(id.class, (classes.get(id.class) ?? 0) + 1);
      return {
        namespace: ports.namespace,
        shards: ports.shards,
        ...(await standing()),
        classes: Array.from(classes, ([name, agents]) => ({ class: name, agents })),
        modules,
      };
    },
    list: async ({ className, prefix, text, after, limit, fresh }) => {
      const stored =
        className === undefined
          ? undefined
          : await refusing(() => existingClass(ports.journal, className));
      const part = text.toLowerCase();
      const isNew = after === undefined || fresh;
      const matching = (await (isNew ? entries.now() : entries.lately())).filter(
        ({ id }) =>
          (stored === undefined || id.class === stored) &&
          id.name.startsWith(prefix) &&
          id.name.toLowerCase().includes(part) &&
          (after === undefined || compare(id, { class: after.className, name: after.name }) > 0),
      );
      const found: unknown[] = [];
      let looked = 0;
      // Agents that no longer exist are left out, and the page is filled up with the next ones.
      while (found.length < limit && looked < matching.length) {
        const some = matching.slice(looked, looked + limit - found.length);
        looked += some.length;
        for await (const agent of listed(ports, some)) found.push(agent);
      }
      return found;
    },
    history: (wanted) =>
      lines((capture) => history(ports, capture, { ...wanted, wholeEvents: true, json })),
    state: (wanted) => first((capture) => state(ports, capture, { ...asOf(wanted), json })),
    schedules: (wanted) => lines((capture) => schedules(ports, capture, { ...asOf(wanted), json })),
    connections: connectionsOf,
    fibers: (wanted) => first((capture) => fibers(ports, capture, { ...asOf(wanted), json })),
    workflows: (wanted) =>
      first((capture) => workflows(ports, capture, time, { ...asOf(wanted), json })),
    query: async ({ sql: statement, at, after }) => {
      const answer =
        at === undefined
          ? await refusing(async () =>
              askHost(ports, time, { sql: statement, after: given("after", after, readEvent) }),
            )
          : undefined;
      if (answer !== undefined) return rowObjects(answer);
      const [rows] = await parts.own("query", [
        "--json",
        "--data",
        dataFolder,
        ...(at === undefined ? [] : [`--at=${at}`]),
        ...(after === undefined ? [] : [`--after=${after}`]),
        ...(statement === "" ? [] : ["--", statement]),
      ]);
      return rows;
    },
    sql: async ({ className, name, at, query: statement }) => {
      const wanted = { className, name, query: statement, seconds: QUICK_SECONDS, json };
      try {
        return await first((capture) =>
          sql(ports, capture, { ...wanted, at: given("at", at, toPoint) }),
        );
      } catch (error) {
        if (!(error instanceof StatementTooLong)) throw error;
      }
      const point = at === undefined ? [] : [`--at=${at}`];
      const [rows] = await parts.own("sql", ["--json", ...point, "--", className, name, statement]);
      return rows;
    },
    why: (wanted) => lines((capture) => why(ports, capture, { ...wanted, json })),
    diff: ({ from, to, ...wanted }) =>
      first((capture) =>
        diff(ports, capture, {
          ...wanted,
          from: valueOf("from", from, toPoint),
          to: given("to", to, toPoint),
          json,
        }),
      ),
    deliveries: async ({ limit, agent, since, ...filter }) => {
      const { status } = filter;
      if (status !== undefined && !DELIVERY_STATUSES.includes(status))
        throw new ConsoleRefusal(400, `status=${String(status)}: use one of ${DELIVERY_STATUSES.join(", ")}`); // prettier-ignore
      const found = await lines((capture) =>
        listDeliveries(ports, capture, {
          given: {
            ...filter,
            agent: given("agent", agent, readAgents),
            since: given("since", since, toTime),
          },
          limit,
          json,
        }),
      );
      return found.toReversed();
    },
    delivery: (id) => lines((capture) => showDelivery(ports, capture, id, json)),
    redeliver: (id, to) =>
      lines((capture) =>
        redeliverNamed({ ports, terminal: capture, time }, [id], {
          json,
          ...(to !== undefined && { to }),
        }),
      ),
    dead: (wanted) =>
      lines((capture) => deadList(ports, capture, { className: undefined, json, ...wanted })),
    letter: (id) => first((capture) => deadShow(ports, capture, { ids: [id], json })),
    redrive: (id) => lines((capture) => deadRedrive(ports, capture, { ids: [id], json })),
    redriveOnFork: ({ ids, module }) => onFork("dead redrive", module, ids.map(String)),
    redeliverOnFork: ({ id, module }) => onFork("redeliver", module, [id]),
    drop: (id) => lines((capture) => deadDrop(ports, capture, { ids: [id], json })),
    quarantined: () =>
      lines((capture) => listQuarantined(ports, capture, time, { className: undefined, json })),
    releaseOnFork: ({ className, name, module }) => onFork("release", module, [className, name]),
    release: (agent) => first((capture) => release(ports, capture, time, { ...agent, json })),
    top: () => first((capture) => top(ports, capture, { className: undefined, json, time })),
    fork: (wanted) => first((capture) => fork(ports, capture, time, { ...asOf(wanted), json })),
    rerun: async ({ className, name, module, from, to, last, failed }) => {
      checkModule(module);
      const id = await refusing(() => findAgent(ports.journal, className, name));
      return parts.own("rerun", [
        "--json",
        ...(from === undefined ? [] : ["--from", String(from)]),
        ...(to === undefined ? [] : ["--to", String(to)]),
        ...(failed ? ["--failed"] : []),
        "--last",
        String(last),
        "--",
        id.class,
        id.name,
        module,
      ]);
    },
    follow: (wanted, tell) => {
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
      const poll = (read: () => Promise<unknown>, changed: (found: unknown) => void): void => {
        const place = cancels.push(() => undefined) - 1;
        let last: string | undefined;
        const look = async (): Promise<void> => {
          const found = await read().catch(() => undefined);
          if (signal.aborted) return;
          const text = JSON.stringify(found);
          if (found !== undefined && text !== last) changed(found);
          last = text;
          cancels[place] = time.after(OVERVIEW_MS, () => void look());
        };
        void look();
      };
      poll(standing, (overview) => tell({ overview }));
      if (wanted?.connections === true)
        poll(
          () => connectionsOf({ ...wanted, limit: CONNECTIONS_POLLED, skip: 0 }),
          () => tell({ connections: true }),
        );
      return () => {
        ended.abort();
        for (const cancel of cancels) cancel();
        again();
        stopDeliveries();
      };
    },
  };
}

/** The value of a parameter. Throws `ConsoleRefusal`, which names the parameter. */
function valueOf<A>(name: string, text: string, reader: (text: string) => A): A {
  try {
    return reader(text);
  } catch (error) {
    if (!(error instanceof CliError)) throw error;
    throw new ConsoleRefusal(400, `${name}=${text}: ${error.message}`);
  }
}

/** The value of a parameter that may be absent. */
const given = <A>(
  name: string,
  text: string | undefined,
  reader: (text: string) => A,
): A | undefined => (text === undefined ? undefined : valueOf(name, text, reader));

async function refusing<A>(run: () => Promise<A>): Promise<A> {
  try {
    return await run();
  } catch (error) {
    throw refusalOf(error);
  }
}

function refusalOf(error: unknown): unknown {
  if (error instanceof HistoryTrimmed) return new ConsoleRefusal(404, error.message);
  if (!(error instanceof CliError) || error instanceof StatementTooLong) return error;
  return new ConsoleRefusal(error.exitCode === EXIT_NOT_FOUND ? 404 : 400, error.message);
}

type Named = Pick<JournalEntry["id"], "class" | "name"> | { readonly class: string; readonly name: string }; // prettier-ignore

const compare = (a: Named, b: Named): number =>
  order(a.class, b.class) === 0 ? order(a.name, b.name) : order(a.class, b.class);
const order = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0);

interface Entries {
  /**
   * All agents, by class and name. They are read after this call; calls that wait share one read.
   */
  readonly now: () => Promise<ReadonlyArray<JournalEntry>>;
  /** The last result, or `now` if that is old. For the next page of a list. */
  readonly lately: () => Promise<ReadonlyArray<JournalEntry>>;
}

function agentEntries({ journal }: ReadPorts, time: Pick<TimeShape, "monotonicMs">): Entries {
  let running: Promise<ReadonlyArray<JournalEntry>> | undefined;
  let next: Promise<ReadonlyArray<JournalEntry>> | undefined;
  let kept: { readonly list: ReadonlyArray<JournalEntry>; readonly atMs: number } | undefined;
  const read = async (): Promise<ReadonlyArray<JournalEntry>> => {
    const found: JournalEntry[] = [];
    for await (const entry of journal.list()) found.push(entry);
    const list = found.toSorted((a, b) => compare(a.id, b.id));
    kept = { list, atMs: time.monotonicMs() };
    return list;
  };
  const start = (): Promise<ReadonlyArray<JournalEntry>> => {
    next = undefined;
    const reading = read().finally(() => {
      if (running === reading) running = undefined;
    });
    running = reading;
    return reading;
  };
  const now: Entries["now"] = () =>
    running === undefined ? start() : (next ??= running.then(start, start));
  const lately: Entries["lately"] = () =>
    kept !== undefined && time.monotonicMs() - kept.atMs < ENTRIES_KEPT_MS
      ? Promise.resolve(kept.list)
      : now();
  return { now, lately };
}
