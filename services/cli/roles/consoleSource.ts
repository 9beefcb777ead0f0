/**
 * The console's data. Most of it comes from the commands, which are run with `--json` and whose
 * output is parsed. Data that no command prints (a page of agents, changes) is read from the ports.
 */
import { ConsoleRefusal, type ConsoleSource } from "../../../core/console/ConsoleSource.ts";
import { HistoryTrimmed } from "../../../core/journal/HistoryTrimmed.ts";
import type { JournalEntry } from "../../../core/journal/Journal.ts";
import { SHARD_KEYS } from "../../../core/lease/leaseKeys.ts";
import type { TimeShape } from "../../../core/time/Time.ts";
import { rowObjects } from "../../../core/query/askView.ts";
import { DELIVERY_STATUSES } from "../../../schemas/DeliveryRecord.ts";
import type { ReadPorts } from "../../wiring/ReadPorts.ts";
import { existingClass, findAgent } from "../agents/findAgent.ts";
import { listQuarantined } from "../agents/listQuarantined.ts";
import { deadDrop, deadList, deadRedrive, deadShow } from "../commands/dead.ts";
import type { OwnProcess } from "./ownProcess.ts";
import { agentEntries, compareAgents } from "./agentEntries.ts";
import { followNews } from "./followNews.ts";
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

/** A longer statement runs in a separate process, because this process serves other pages too. */
const QUICK_SECONDS = 0.2;

export function consoleSource(parts: ConsoleSourceParts): ConsoleSource {
  const { ports, terminal, time, modules } = parts;
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
  const hosts = () => hostsOf(ports);
  const standing = async () => ({ hosts: await hosts(), dead: await ports.deadLetters.count() });
  return {
    hosts,
    overview: async () => ({
      namespace: ports.namespace,
      shards: ports.shards,
      ...(await standing()),
      classes: countClasses(await entries.now()),
      modules,
    }),
    list: (wanted) => pageOfAgents(ports, entries, wanted),
    history: (wanted) =>
      lines((capture) => history(ports, capture, { ...wanted, wholeEvents: true, json })),
    state: (wanted) => first((capture) => state(ports, capture, { ...asOf(wanted), json })),
    schedules: (wanted) => lines((capture) => schedules(ports, capture, { ...asOf(wanted), json })),
    connections: connectionsOf,
    fibers: (wanted) => first((capture) => fibers(ports, capture, { ...asOf(wanted), json })),
    workflows: (wanted) =>
      first((capture) => workflows(ports, capture, time, { ...asOf(wanted), json })),
    query: (wanted) => queryAll(parts, wanted),
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
    follow: (wanted, tell) => followNews({ ports, time, standing, connectionsOf }, wanted, tell),
  };
}

async function hostsOf({ leases }: ReadPorts) {
  const shards = new Map<string, number>();
  for (const { value } of await leases.list(SHARD_KEYS))
    shards.set(value, (shards.get(value) ?? 0) + 1);
  return Array.from(shards, ([host, owned]) => ({ host, shards: owned }));
}

function countClasses(entries: ReadonlyArray<JournalEntry>) {
  const classes = new Map<string, number>();
  for (const { id } of entries) classes.set(id.class, (classes.get(id.class) ?? 0) + 1);
  return Array.from(classes, ([name, agents]) => ({ class: name, agents }));
}

async function pageOfAgents(
  ports: ReadPorts,
  entries: ReturnType<typeof agentEntries>,
  { className, prefix, text, after, limit, fresh }: Parameters<ConsoleSource["list"]>[0],
): Promise<unknown[]> {
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
      (after === undefined || compareAgents(id, { class: after.className, name: after.name }) > 0),
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
}

/** The answer of a host. If none runs, or for a point in time, that of a separate process. */
async function queryAll(
  { ports, time, own, dataFolder }: ConsoleSourceParts,
  { sql: statement, at, after }: Parameters<ConsoleSource["query"]>[0],
): Promise<unknown> {
  const answer =
    at === undefined
      ? await refusing(async () =>
          askHost(ports, time, { sql: statement, after: given("after", after, readEvent) }),
        )
      : undefined;
  if (answer !== undefined) return rowObjects(answer);
  const [rows] = await own("query", [
    "--json",
    "--data",
    dataFolder,
    ...(at === undefined ? [] : [`--at=${at}`]),
    ...(after === undefined ? [] : [`--after=${after}`]),
    ...(statement === "" ? [] : ["--", statement]),
  ]);
  return rows;
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
