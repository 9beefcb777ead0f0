/**
 * The agent at a point of its history, or now: its state, its tables, its schedules and queue, its
 * approvals and budgets.
 */
import { useState } from "react";
import { agentPath, withQuery, type AgentName } from "./api.ts";
import { go, useAsk, type Place } from "./hooks.ts";
import { Answer, Field, Link, Problem, Table, Time, turnPath, Value, short } from "./parts.tsx";
import { QueryForm, Rows, type Row } from "./query.tsx";

/** The properties of each part of an agent's page. */
export interface Part {
  readonly agent: AgentName;
  /** Grows when the agent has new turns. */
  readonly news: number;
}

/** The point of history at which a part shows the agent, as a field that can be changed. */
export const AtField = ({
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

export const StateTab = ({ agent, place, news }: Part & { readonly place: Place }) => {
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

/** The state's fields, each with a link to the turns that wrote it. */
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

const TABLES = "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name";

export const TablesTab = ({ agent, place, news }: Part & { readonly place: Place }) => {
  const at = place.query.get("at") ?? undefined;
  const asked = place.query.get("query") ?? "";
  const path = `${agentPath(agent)}/sql`;
  const version = at === undefined ? news : 0;
  const tables = useAsk<ReadonlyArray<Row>>(withQuery(path, { at, query: TABLES }), version);
  const rows = useAsk<ReadonlyArray<Row>>(
    asked === "" ? undefined : withQuery(path, { at, query: asked }),
    version,
  );
  return (
    <>
      <AtField key={at} agent={agent} place={place} part="tables" />
      {tables.error !== undefined && <Problem text={tables.error} />}
      <QueryForm
        kept={`${agent.class}/${agent.name}`}
        asked={asked}
        run={(text) => go(withQuery(`${agentPath(agent)}/tables`, { at, query: text }))}
        examples={(tables.value ?? []).map(({ name }) => ({
          label: String(name),
          sql: `SELECT * FROM "${String(name).replaceAll('"', '""')}" LIMIT 100`,
        }))}
      />
      {asked !== "" && <Answer of={rows}>{(list) => <Rows rows={list} />}</Answer>}
    </>
  );
};

export const SchedulesTab = ({ agent, place, news }: Part & { readonly place: Place }) => {
  const at = place.query.get("at") ?? undefined;
  const found = useAsk<ReadonlyArray<Row>>(
    withQuery(`${agentPath(agent)}/schedules`, { at }),
    at === undefined ? news : 0,
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
            none="No schedules."
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
      <TableIfThere
        {...{ agent, place, news }}
        table="svc_agents_queue"
        query="SELECT * FROM svc_agents_queue"
        none="The queue is empty."
      />
    </>
  );
};

const isoOf = (column: string): string =>
  `strftime('%Y-%m-%dT%H:%M:%SZ', ${column} / 1000, 'unixepoch')`;

const APPROVALS = `SELECT name, prompt,
  iif(status = 'waiting' AND expires_at <= unixepoch() * 1000, 'expired', status) AS status,
  decided_by AS by, reason, ${isoOf("decided_at")} AS decided, ${isoOf("asked_at")} AS asked,
  ${isoOf("expires_at")} AS until FROM cf_agents_approvals ORDER BY rowid DESC`;
const BUDGETS = `SELECT name, per, used, limit_amount AS "limit", ${isoOf("resets_at")} AS until
  FROM cf_agents_budget_uses ORDER BY name`;

export const ApprovalsTab = (part: Part & { readonly place: Place }) => (
  <>
    <AtField key={part.place.query.get("at")} {...part} part="approvals" />
    <h2>Approvals</h2>
    <TableIfThere {...part} table="cf_agents_approvals" query={APPROVALS} none="No approvals." />
    <h2>Budgets</h2>
    <TableIfThere {...part} table="cf_agents_budget_uses" query={BUDGETS} none="No budgets." />
  </>
);

/** Fills some screens. */
const SHOWN_MAX = 100;

/** Rows of a table that exists only in agents that have needed it. */
const TableIfThere = ({
  agent,
  place,
  news,
  table,
  query,
  none,
}: Part & {
  readonly place: Place;
  readonly table: string;
  readonly query: string;
  readonly none: string;
}) => {
  const at = place.query.get("at") ?? undefined;
  const version = at === undefined ? news : 0;
  const path = `${agentPath(agent)}/sql`;
  const tables = useAsk<ReadonlyArray<Row>>(withQuery(path, { at, query: TABLES }), version);
  const isThere = tables.value?.some(({ name }) => name === table) === true;
  const rows = useAsk<ReadonlyArray<Row>>(
    isThere ? withQuery(path, { at, query: `${query} LIMIT ${SHOWN_MAX + 1}` }) : undefined,
    version,
  );
  if (isThere)
    return (
      <Answer of={rows}>
        {(list) => (
          <>
            <Rows rows={list.slice(0, SHOWN_MAX)} />
            {list.length > SHOWN_MAX && (
              <p className="quiet">
                Only the first {SHOWN_MAX} are shown; Tables has all rows of {table}.
              </p>
            )}
          </>
        )}
      </Answer>
    );
  return <Answer of={tables}>{() => <p className="quiet">{none}</p>}</Answer>;
};
