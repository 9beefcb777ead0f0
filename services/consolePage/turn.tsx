/** One turn: its cause, its changes, and the actions on it. */
import { useState } from "react";
import { act, agentPath, withQuery, type AgentName } from "./api.ts";
import { Request } from "./deliveries.tsx";
import { go, useAsk } from "./hooks.ts";
import { Act, Answer, Differences, Field, Link, Time, Value } from "./parts.tsx";
import { Rerun } from "./rerun.tsx";
import type { HistoryLine as Line } from "../../core/journal/historyLines.ts";
import type { AgentDiff } from "../cli/commands/diff.ts";

export const TurnView = ({ agent, seq }: { readonly agent: AgentName; readonly seq: number }) => {
  const lines = useAsk<ReadonlyArray<Line>>(
    withQuery(`${agentPath(agent)}/history`, { from: seq, to: seq, omit: "state" }),
  );
  const diff = useAsk<AgentDiff>(withQuery(`${agentPath(agent)}/diff`, { from: seq - 1, to: seq }));
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
            <h3>Changes of the state</h3>
            <Differences agent={agent} label="Changes of the state" list={state} />
            <h3>Changes of rows</h3>
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
        {took !== undefined && took >= 0 && <>, stored {took} ms after it arrived</>}
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
      {line.destroyed === true && <p>The agent was destroyed.</p>}
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
          question={`Create ${agent.class}/${to} as this agent was after turn ${seq}? The fork also runs its schedules and queue.`}
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
