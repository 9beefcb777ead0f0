/**
 * One agent: its timeline, any turn with what it changed, state, tables and schedules at any point,
 * what wrote a field, and two points compared. Each has a place of its own in the address bar.
 */
import { useId, useState } from "react";
import { act, agentPath, withQuery, type AgentName } from "./api.ts";
import { go, useAsk, useNewsCount, type Place } from "./hooks.ts";
import {
  Act, Answer, Choice, Differences, Field, Heading, Link, Table, Time, turnPath, Value, short, type Difference,
} from "./parts.tsx"; // prettier-ignore
import { KINDS, Timeline, type Cause, type Line } from "./timeline.tsx";
import { Request } from "./deliveries.tsx";
import { Rerun } from "./rerun.tsx";

const TABS = [
  ["timeline", "Timeline"],
  ["state", "State"],
  ["tables", "Tables"],
  ["schedules", "Schedules"],
  ["why", "Why"],
  ["diff", "Compare"],
  ["rerun", "Re-run"],
] as const;

export const AgentView = ({ place }: { readonly place: Place }) => {
  const [, className = "", name = "", tab = "timeline", seq] = place.parts;
  const agent = { class: className, name };
  const key = `${className}/${name}`;
  const news = useNewsCount(({ agents }) =>
    agents === undefined
      ? false
      : agents.length === 0 || agents.some(([c, n]) => c === className && n === name),
  );
  return (
    <>
      <Heading text={`${className} ${name}`}>
        <small>{className}</small> {name}
      </Heading>
      <nav aria-label="Parts of the agent" className="tabs">
        {TABS.map(([part, title]) => (
          <Link
            key={part}
            to={part === "timeline" ? agentPath(agent) : `${agentPath(agent)}/${part}`}
            current={tab === part}
          >
            {title}
          </Link>
        ))}
      </nav>
      {tab === "timeline" && <TimelineTab key={key} agent={agent} news={news} />}
      {tab === "turns" && <TurnView key={`${key} ${seq}`} agent={agent} seq={Number(seq)} />}
      {tab === "state" && <StateTab key={key} agent={agent} place={place} news={news} />}
      {tab === "tables" && <TablesTab key={key} agent={agent} place={place} news={news} />}
      {tab === "schedules" && <SchedulesTab key={key} agent={agent} place={place} news={news} />}
      {tab === "why" && <WhyTab key={key} agent={agent} place={place} news={news} />}
      {tab === "diff" && <DiffTab key={key} agent={agent} place={place} />}
      {tab === "rerun" && <Rerun key={key} agent={agent} />}
    </>
  );
};

interface Part {
  readonly agent: AgentName;
  readonly news: number;
}

const TimelineTab = ({ agent, news }: Part) => {
  const [kind, setKind] = useState("");
  const [text, setText] = useState("");
  const [failed, setFailed] = useState(false);
  return (
    <>
      <form className="row" role="search" onSubmit={(event) => event.preventDefault()}>
        <Choice label="Began by" value={kind} values={KINDS} onChange={setKind} />
        <Field
          label="Contains"
          value={text}
          placeholder="in input, state, SQL or error"
          onChange={setText}
        />
        <label className="check">
          <input
            type="checkbox"
            checked={failed}
            onChange={({ target }) => setFailed(target.checked)}
          />{" "}
          failed only
        </label>
      </form>
      <Timeline agent={agent} news={news} filter={{ kind, text, failed }} />
    </>
  );
};

/** Where a part shows the agent at a point, and how to go to another. */
const AtField = ({
  agent,
  place,
  part,
}: {
  readonly agent: AgentName;
  readonly place: Place;
  readonly part: string;
}) => {
  const at = place.query.get("at") ?? "";
  const [text, setText] = useState(at);
  return (
    <form
      className="row"
      onSubmit={(event) => {
        event.preventDefault();
        go(withQuery(`${agentPath(agent)}/${part}`, { at: text }));
      }}
    >
      <Field
        label="At sequence or time (empty: now)"
        value={text}
        placeholder="42, 2026-03-01T09:30Z"
        onChange={setText}
      />
      <button>Show</button>
    </form>
  );
};

interface StateAt {
  readonly seq: number;
  readonly time: string;
  readonly state: unknown;
}

const StateTab = ({ agent, place, news }: Part & { readonly place: Place }) => {
  const at = place.query.get("at") ?? undefined;
  const found = useAsk<StateAt>(
    withQuery(`${agentPath(agent)}/state`, { at }),
    at === undefined ? news : 0,
  );
  return (
    <>
      <AtField key={at} agent={agent} place={place} part="state" />
      <Answer of={found}>
        {({ seq, time, state }) => (
          <>
            <p>
              After <Link to={turnPath(agent, seq)}>turn {seq}</Link>, <Time at={time} />
            </p>
            <Fields agent={agent} state={state} />
            <Value value={state} />
          </>
        )}
      </Answer>
    </>
  );
};

/** The state's fields, each with the way to who wrote it. */
const Fields = ({ agent, state }: { readonly agent: AgentName; readonly state: unknown }) =>
  typeof state !== "object" || state === null || Array.isArray(state) ? null : (
    <Table
      label="Fields of the state"
      columns={["Field", "Value"]}
      none="No fields."
      rows={Object.entries(state).map(([name, value]) => {
        const path = /^[\p{L}\p{N}_$-]+$/u.test(name)
          ? `state.${name}`
          : `state[${JSON.stringify(name)}]`;
        return {
          key: name,
          cells: [
            <a
              href={`#/${withQuery(`${agentPath(agent)}/why`, { path })}`}
              title="Which turns wrote it"
            >
              <code>{path}</code>
            </a>,
            <code>{short(value).slice(0, 120)}</code>,
          ],
        };
      })}
    />
  );

type Row = Readonly<Record<string, unknown>>;
const TABLES = "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name";

const TablesTab = ({ agent, place, news }: Part & { readonly place: Place }) => {
  const at = place.query.get("at") ?? undefined;
  const asked = place.query.get("query") ?? "";
  const id = useId();
  const draftKey = `query ${agent.class}/${agent.name}`;
  // What was typed is still there when somebody comes back.
  const [query, setQuery] = useState(() => sessionStorage.getItem(draftKey) ?? asked);
  const type = (text: string): void => {
    setQuery(text);
    sessionStorage.setItem(draftKey, text);
  };
  const path = `${agentPath(agent)}/sql`;
  const version = at === undefined ? news : 0;
  const tables = useAsk<ReadonlyArray<Row>>(withQuery(path, { at, query: TABLES }), version);
  const rows = useAsk<ReadonlyArray<Row>>(
    asked === "" ? undefined : withQuery(path, { at, query: asked }),
    version,
  );
  const run = (text: string): void =>
    go(withQuery(`${agentPath(agent)}/tables`, { at, query: text }));
  return (
    <>
      <AtField key={at} agent={agent} place={place} part="tables" />
      <Answer of={tables}>
        {(list) => (
          <div className="row">
            {list.map(({ name }) => (
              <button
                key={String(name)}
                onClick={() => {
                  const text = `SELECT * FROM "${String(name).replaceAll('"', '""')}" LIMIT 100`;
                  type(text);
                  run(text);
                }}
              >
                {String(name)}
              </button>
            ))}
          </div>
        )}
      </Answer>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          run(query);
        }}
      >
        <label htmlFor={id}>Query</label>
        <textarea
          id={id}
          value={query}
          rows={3}
          spellCheck={false}
          placeholder="SELECT …"
          onChange={({ target }) => type(target.value)}
          onKeyDown={(event) => {
            if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) run(query);
          }}
        />
        <button>Run</button>{" "}
        <span className="quiet">Ctrl-Enter runs it. Only statements that read.</span>
      </form>
      {asked !== "" && <Answer of={rows}>{(list) => <Rows rows={list} />}</Answer>}
    </>
  );
};

const Rows = ({ rows }: { readonly rows: ReadonlyArray<Row> }) => {
  const columns = Object.keys(rows[0] ?? {});
  return (
    <Table
      label="Rows"
      columns={columns}
      none="No rows."
      rows={rows.map((row, n) => ({
        key: n,
        cells: columns.map((column) => (row[column] === null ? "NULL" : String(row[column]))),
      }))}
    />
  );
};

const SchedulesTab = ({ agent, place, news }: Part & { readonly place: Place }) => {
  const at = place.query.get("at") ?? undefined;
  const found = useAsk<ReadonlyArray<Row>>(
    withQuery(`${agentPath(agent)}/schedules`, { at }),
    at === undefined ? news : 0,
  );
  const queue = useAsk<ReadonlyArray<Row>>(
    withQuery(`${agentPath(agent)}/sql`, {
      at,
      query: "SELECT * FROM sqlite_master WHERE name = 'svc_agents_queue'",
    }),
    news,
  );
  const queued = useAsk<ReadonlyArray<Row>>(
    queue.value?.length === 1
      ? withQuery(`${agentPath(agent)}/sql`, {
          at,
          query: "SELECT * FROM svc_agents_queue LIMIT 100",
        })
      : undefined,
    news,
  );
  return (
    <>
      <AtField key={at} agent={agent} place={place} part="schedules" />
      <h2>Schedules</h2>
      <Answer of={found}>
        {(list) => (
          <Table
            label="Schedules"
            columns={["Next run", "Callback", "Rule", "Payload"]}
            none="Nothing is scheduled."
            rows={list.map((row) => ({
              key: String(row["id"]),
              cells: [
                row["due"] === null ? "never" : <Time at={String(row["due"])} />,
                String(row["callback"]),
                String(
                  row["cron"] ??
                    (row["intervalSeconds"] === undefined
                      ? "once"
                      : `every ${String(row["intervalSeconds"])} s`),
                ),
                short(row["payload"]),
              ],
            }))}
          />
        )}
      </Answer>
      <h2>Queue</h2>
      {queued.value === undefined ? (
        <p className="quiet">Nothing waits.</p>
      ) : (
        <Rows rows={queued.value} />
      )}
    </>
  );
};

interface Write {
  readonly seq: number;
  readonly time: string;
  readonly causes: ReadonlyArray<Cause>;
  readonly before?: unknown;
  readonly after?: unknown;
}

const WhyTab = ({ agent, place, news }: Part & { readonly place: Place }) => {
  const path = place.query.get("path") ?? "";
  const [text, setText] = useState(path);
  const found = useAsk<ReadonlyArray<Write>>(
    path === "" ? undefined : withQuery(`${agentPath(agent)}/why`, { path, limit: 500 }),
    news,
  );
  return (
    <>
      <form
        className="row"
        onSubmit={(event) => {
          event.preventDefault();
          go(withQuery(`${agentPath(agent)}/why`, { path: text }));
        }}
      >
        <Field
          label="Field or row"
          value={text}
          placeholder="state.pr.title, events[42].title"
          onChange={setText}
        />
        <button>Who wrote it?</button>
      </form>
      {path !== "" && (
        <Answer of={found}>
          {(list) => (
            <Table
              label={`Turns that wrote ${path}`}
              columns={["Turn", "When", "Cause", "Delivery", "Before", "After"]}
              none={`No turn wrote ${path}: it has never been there.`}
              rows={list.map(({ seq, time, causes, before, after }, n) => ({
                key: n,
                cells: [
                  <Link to={turnPath(agent, seq)}>{seq}</Link>,
                  <Time at={time} />,
                  causes
                    .map(({ kind, provider, type }) =>
                      [kind, provider, type].filter(Boolean).join(" "),
                    )
                    .join(", "),
                  causes.map(({ delivery }) =>
                    delivery === undefined ? null : (
                      <Link key={delivery} to={`deliveries/${encodeURIComponent(delivery)}`}>
                        {delivery}
                      </Link>
                    ),
                  ),
                  <code className="gone">{short(before)}</code>,
                  <code className="new">{short(after)}</code>,
                ],
              }))}
            />
          )}
        </Answer>
      )}
    </>
  );
};

interface Diff {
  readonly from: { readonly seq: number; readonly time?: string };
  readonly to: { readonly seq: number; readonly time?: string };
  readonly state: ReadonlyArray<Difference>;
  readonly rows: ReadonlyArray<Difference>;
}

const DiffTab = ({ agent, place }: { readonly agent: AgentName; readonly place: Place }) => {
  const [from, to] = [place.query.get("from") ?? "", place.query.get("to") ?? ""];
  const [a, setA] = useState(from);
  const [b, setB] = useState(to);
  const found = useAsk<Diff>(
    from === "" ? undefined : withQuery(`${agentPath(agent)}/diff`, { from, to }),
  );
  return (
    <>
      <form
        className="row"
        onSubmit={(event) => {
          event.preventDefault();
          go(withQuery(`${agentPath(agent)}/diff`, { from: a, to: b }));
        }}
      >
        <Field label="From sequence or time" value={a} onChange={setA} />
        <Field label="To (empty: now)" value={b} onChange={setB} />
        <button>Compare</button>
      </form>
      {from !== "" && (
        <Answer of={found}>
          {(diff) => (
            <>
              <p>
                From {diff.from.seq} to {diff.to.seq}
              </p>
              <h2>State</h2>
              <Differences agent={agent} label="Differences of the state" list={diff.state} />
              <h2>Rows</h2>
              <Differences agent={agent} label="Differences of rows" list={diff.rows} />
            </>
          )}
        </Answer>
      )}
    </>
  );
};

const TurnView = ({ agent, seq }: { readonly agent: AgentName; readonly seq: number }) => {
  const lines = useAsk<ReadonlyArray<Line>>(
    withQuery(`${agentPath(agent)}/history`, { from: seq, to: seq }),
  );
  const diff = useAsk<Diff>(withQuery(`${agentPath(agent)}/diff`, { from: seq - 1, to: seq }));
  return (
    <>
      <h2>
        Turn {seq}{" "}
        <small>
          <Link to={withQuery(`${agentPath(agent)}/state`, { at: seq })}>state after it</Link>,{" "}
          <Link to={withQuery(`${agentPath(agent)}/tables`, { at: seq })}>tables after it</Link>
        </small>
      </h2>
      <Answer of={lines}>{(list) => list.map((line, n) => <OneTurn key={n} line={line} />)}</Answer>
      <Answer of={diff}>
        {({ state, rows }) => (
          <>
            <h3>What it changed in the state</h3>
            <Differences agent={agent} label="Changes of the state" list={state} />
            <h3>What it changed in rows</h3>
            <Differences agent={agent} label="Changes of rows" list={rows} />
          </>
        )}
      </Answer>
      <Rerun agent={agent} seq={seq} />
      <ForkHere agent={agent} seq={seq} />
    </>
  );
};

const OneTurn = ({ line }: { readonly line: Line }) => {
  const { cause, time } = line;
  const took = cause.time === undefined ? undefined : Date.parse(time) - cause.time;
  return (
    <article>
      <p>
        <strong>{[cause.kind, cause.provider, cause.type].filter(Boolean).join(" ")}</strong>,{" "}
        <Time at={time} />
        {took !== undefined && took >= 0 && <>, stored {took} ms after it came</>}
        {cause.attempt !== undefined && <>, attempt {cause.attempt}</>}
        {cause.delivery !== undefined && (
          <>
            ,{" "}
            <Link to={`deliveries/${encodeURIComponent(cause.delivery)}`}>
              delivery {cause.delivery}
            </Link>
          </>
        )}
        {cause.traceparent !== undefined && <>, trace {cause.traceparent.split("-")[1]}</>}
      </p>
      {line.error !== undefined && (
        <>
          <h3>Error</h3>
          <Value value={line.error} />
        </>
      )}
      {line.sql !== undefined && (
        <>
          <h3>SQL</h3>
          <Value value={line.sql.join("\n")} />
        </>
      )}
      {line.schedules !== undefined && (
        <>
          <h3>Schedules</h3>
          <Value value={line.schedules} />
        </>
      )}
      {line.queue !== undefined && (
        <>
          <h3>Queue</h3>
          <Value value={line.queue} />
        </>
      )}
      {(cause.body !== undefined || cause.headers !== undefined || cause.url !== undefined) && (
        <Request input={cause} />
      )}
    </article>
  );
};

const ForkHere = ({ agent, seq }: { readonly agent: AgentName; readonly seq: number }) => {
  const [to, setTo] = useState("");
  return (
    <section aria-label="Fork">
      <h3>Fork</h3>
      <div className="row">
        <Field label="Name of the fork" value={to} onChange={setTo} />
        <Act
          label="Fork from here"
          disabled={to === ""}
          question={`Make ${agent.class}/${to} of what this agent was after turn ${seq}? What it had scheduled runs there, too.`}
          act={async () => {
            await act(withQuery(`${agentPath(agent)}/fork`, { at: seq, to }));
            go(agentPath({ class: agent.class, name: to }));
            return "Forked.";
          }}
        />
      </div>
    </section>
  );
};
