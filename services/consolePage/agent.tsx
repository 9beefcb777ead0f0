/**
 * One agent: its timeline, any turn with what it changed, state, tables, schedules, workflows,
 * fibers, approvals and budgets at any point, its connections, the turns that wrote a field, and a
 * comparison of two points. Each has its own place in the address bar.
 */
import { useState } from "react";
import { agentPath, withQuery, type AgentName } from "./api.ts";
import { ConnectionsTab } from "./connections.tsx";
import { FibersTab } from "./fibers.tsx";
import { go, useAsk, useNewsCount, useRested, type Place } from "./hooks.ts";
import {
  Answer,
  Choice,
  Differences,
  Field,
  Heading,
  Link,
  Table,
  Time,
  turnPath,
  short,
} from "./parts.tsx";
import { ApprovalsTab, SchedulesTab, StateTab, TablesTab, type Part } from "./points.tsx";
import { Rerun } from "./rerun.tsx";
import { KINDS, Timeline } from "./timeline.tsx";
import { TurnView } from "./turn.tsx";
import { WorkflowsTab } from "./workflows.tsx";
import type { FieldWrite } from "../../core/history/fieldHistory.ts";
import type { AgentDiff } from "../cli/commands/diff.ts";

const TABS = [
  ["timeline", "Timeline"],
  ["state", "State"],
  ["tables", "Tables"],
  ["schedules", "Schedules"],
  ["connections", "Connections"],
  ["workflows", "Workflows"],
  ["fibers", "Fibers"],
  ["approvals", "Approvals and budgets"],
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
      {tab === "connections" && <ConnectionsTab key={key} agent={agent} place={place} />}
      {tab === "workflows" && <WorkflowsTab key={key} agent={agent} place={place} news={news} />}
      {tab === "fibers" && <FibersTab key={key} agent={agent} place={place} news={news} />}
      {tab === "approvals" && <ApprovalsTab key={key} agent={agent} place={place} news={news} />}
      {tab === "why" && <WhyTab key={key} agent={agent} place={place} news={news} />}
      {tab === "diff" && <DiffTab key={key} agent={agent} place={place} />}
      {tab === "rerun" && <Rerun key={key} agent={agent} />}
    </>
  );
};

const TimelineTab = ({ agent, news }: Part) => {
  const [kind, setKind] = useState("");
  const [text, setText] = useState("");
  const [failed, setFailed] = useState(false);
  return (
    <>
      <form className="row" role="search" onSubmit={(event) => event.preventDefault()}>
        <Choice label="Cause" value={kind} values={KINDS} onChange={setKind} />
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
          Failed only
        </label>
      </form>
      <Timeline agent={agent} news={news} filter={{ kind, text: useRested(text), failed }} />
    </>
  );
};

/** Fills some screens. */
const WRITES_MAX = 500;

const WhyTab = ({ agent, place, news }: Part & { readonly place: Place }) => {
  const path = place.query.get("path") ?? "";
  const [text, setText] = useState(path);
  const found = useAsk<ReadonlyArray<FieldWrite>>(
    path === "" ? undefined : withQuery(`${agentPath(agent)}/why`, { path, limit: WRITES_MAX }),
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
        <button>Show writes</button>
      </form>
      {path !== "" && (
        <Answer of={found}>
          {(list) => (
            <>
              <Table
                label={`Turns that wrote ${path}`}
                columns={["Turn", "When", "Cause", "Delivery", "Before", "After"]}
                none={`No turn wrote ${path}: it has never existed.`}
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
              {list.length === WRITES_MAX && (
                <p className="quiet">
                  Only the newest {WRITES_MAX} are shown; agents why prints all.
                </p>
              )}
            </>
          )}
        </Answer>
      )}
    </>
  );
};

const DiffTab = ({ agent, place }: { readonly agent: AgentName; readonly place: Place }) => {
  const [from, to] = [place.query.get("from") ?? "", place.query.get("to") ?? ""];
  const [a, setA] = useState(from);
  const [b, setB] = useState(to);
  const found = useAsk<AgentDiff>(
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
                From turn {diff.from.seq} to turn {diff.to.seq}
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
