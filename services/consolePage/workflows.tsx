/**
 * Workflows of an agent: the steps of an instance as a graph, in which those that were open at the
 * same time are beside each other, and the instances that the agent has started. The graph is a
 * list in the order in which steps began, which CSS places in rows and lanes.
 */
import { memo, type CSSProperties } from "react";
import { agentPath, withQuery, type AgentName } from "./api.ts";
import { useAsk, type Place } from "./hooks.ts";
import { AgentLink, Answer, Link, short, spanText, Status, Table, Time, turnPath } from "./parts.tsx"; // prettier-ignore
import { AtField, type Part } from "./points.tsx";
import type { RecordedRun, RecordedStep } from "../../core/workflow/RecordedRun.ts";
import type { Workflows } from "../cli/commands/workflows.ts";

/** Steps of a page: some screens. */
const STEPS = 100;
/** Wide enough for a name and a time. */
const LANE = "minmax(13rem, 1fr)";

export const WorkflowsTab = ({ agent, place, news }: Part & { readonly place: Place }) => {
  const given = (name: string): string | undefined => place.query.get(name) ?? undefined;
  const [at, to, cursor] = [given("at"), given("to"), given("cursor")];
  const path = `${agentPath(agent)}/workflows`;
  const found = useAsk<Workflows>(
    withQuery(path, { at, to, cursor, limit: STEPS }),
    at === undefined ? news : 0,
  );
  return (
    <>
      <AtField key={at} agent={agent} place={place} part="workflows" />
      <Answer of={found}>
        {({ run, started, startedTotal, cursor: next }) => (
          <>
            {run !== undefined && <Run agent={agent} run={run} />}
            {run !== undefined && (
              <nav aria-label="Pages of steps">
                {run.earlier !== undefined && (
                  <Link to={withQuery(path, { at, to: run.earlier })}>Earlier steps</Link>
                )}
                {run.later !== undefined && (
                  <Link to={withQuery(path, { at, to: run.later })}>Later steps</Link>
                )}
                {run.later !== undefined && <Link to={withQuery(path, { at })}>Last steps</Link>}
              </nav>
            )}
            {(run === undefined || startedTotal > 0) && (
              <>
                <h2>Started workflows</h2>
                <Started list={started} />
                {next !== undefined && (
                  <p>
                    {startedTotal} in all.{" "}
                    <Link to={withQuery(path, { at, to, cursor: next })}>Older workflows</Link>
                  </p>
                )}
              </>
            )}
          </>
        )}
      </Answer>
    </>
  );
};

const Run = ({ agent, run }: { readonly agent: AgentName; readonly run: RecordedRun }) => {
  const { counts, error, undoing, events } = run;
  return (
    <>
      <dl>
        <Fact name="Status" value={<Status text={run.status} />} />
        <Fact name="Started" value={<Time at={run.started} />} />
        {run.agent !== undefined && (
          <Fact
            name="Started by"
            value={<AgentLink agent={{ class: run.agent[0], name: run.agent[1] }} />}
          />
        )}
        {run.generation > 1 && <Fact name="Restarts" value={run.generation - 1} />}
        <Fact name="Steps" value={counts.steps} />
        <Fact name="Done" value={counts.done} />
        {counts.failed > 0 && <Fact name="Failed" value={counts.failed} />}
        {counts.undone > 0 && <Fact name="Undone" value={counts.undone} />}
        {run.params !== undefined && <Fact name="Params" value={<code>{run.params}</code>} />}
        {run.output !== undefined && <Fact name="Output" value={<code>{run.output}</code>} />}
        {events.length > 0 && (
          <Fact
            name="Events that no step has received"
            value={events.map(({ type, count }) => `${type} (${count})`).join(", ")}
          />
        )}
      </dl>
      {error !== undefined && <p className="problem">{error.message}</p>}
      {error === undefined && undoing !== undefined && (
        <p className="problem">Its steps are being undone: {undoing.message}</p>
      )}
      <Graph agent={agent} steps={run.steps} />
    </>
  );
};

const Fact = ({ name, value }: { readonly name: string; readonly value: React.ReactNode }) => (
  <div>
    <dt>{name}</dt>
    <dd>{value}</dd>
  </div>
);

const Graph = (props: {
  readonly agent: AgentName;
  readonly steps: ReadonlyArray<RecordedStep>;
}) => {
  const { agent, steps } = props;
  if (steps.length === 0) return <p className="quiet">No steps yet.</p>;
  // Lanes without a step of this page, and rows before its first step, are left out.
  const lanes = [...new Set(steps.map(({ lane }) => lane))].toSorted((a, b) => a - b);
  const column = new Map(lanes.map((lane, n) => [lane, n]));
  const first = Math.min(...steps.map(({ row }) => row));
  const columns: CSSProperties = { gridTemplateColumns: `repeat(${lanes.length}, ${LANE})` };
  return (
    <div className="wide" role="region" aria-label="Steps" tabIndex={0}>
      <ol className="graph" style={columns}>
        {steps.map((step) => {
          const at = column.get(step.lane)!;
          const from = step.from === undefined ? undefined : column.get(step.from);
          const across = from === undefined ? 0 : from - at;
          return (
            <li
              key={step.key}
              className={`${step.state} ${from === undefined ? "" : "follows"} ${across === 0 ? "" : "crosses"}`}
              style={placeOf({ column: at, row: step.row - first, end: step.rowEnd - first, across })} // prettier-ignore
            >
              <Step
                agent={agent}
                step={step}
                beside={besideText(steps, step)}
                text={JSON.stringify(step)}
              />
            </li>
          );
        })}
      </ol>
    </div>
  );
};

const placeOf = (at: { column: number; row: number; end: number; across: number }) =>
  ({
    gridColumn: at.column + 1,
    gridRow: `${at.row + 1} / ${at.end + 1}`,
    "--across": at.across,
  }) as CSSProperties;

/** The most steps that a text for screen readers names. */
const NAMED_MAX = 5;

function besideText(steps: ReadonlyArray<RecordedStep>, step: RecordedStep): string {
  const others = steps.filter(
    (other) => other !== step && other.row < step.rowEnd && step.row < other.rowEnd,
  );
  if (others.length === 0) return "";
  const named = others.slice(0, NAMED_MAX).map(({ name }) => name);
  const more = others.length - named.length;
  return `At the same time as ${named.join(", ")}${more > 0 ? ` and ${more} others` : ""}.`;
}

interface StepProps {
  readonly agent: AgentName;
  readonly step: RecordedStep;
  readonly beside: string;
  /** The step as JSON. The step is drawn again when this changes. */
  readonly text: string;
}

const Step = memo(
  ({ agent, step, beside }: StepProps) => {
    const { kind, name, call, eventType, error, result, resultChars, undo } = step;
    return (
      <>
        <h3>
          <small>{kind}</small> {name}
          {call > 1 && <small> call {call}</small>}
        </h3>
        {beside !== "" && <p className="hidden">{beside}</p>}
        {eventType !== undefined && <p className="quiet">for {eventType}</p>}
        <Effort agent={agent} of={step} />
        {error !== undefined && <p className="bad">{error.message}</p>}
        {result !== undefined && (
          <p>
            <code>{result}</code>
            {resultChars !== undefined && <small> … ({resultChars} characters)</small>}
          </p>
        )}
        {undo !== undefined && (
          <>
            <Effort agent={agent} of={undo} name="undo" />
            {undo.error !== undefined && <p className="bad">{undo.error.message}</p>}
          </>
        )}
      </>
    );
  },
  (before, after) =>
    before.text === after.text &&
    before.beside === after.beside &&
    agentPath(before.agent) === agentPath(after.agent),
);

/** How far a step, or its undo, has come, with a link to the turn that stored it. */
const Effort = (props: {
  readonly agent: AgentName;
  readonly of: Pick<RecordedStep, "state" | "attempts" | "began" | "ended" | "until">;
  readonly name?: string;
}) => {
  const { agent, of, name } = props;
  const { state, attempts, began, ended, until } = of;
  const stored = ended ?? began;
  return (
    <p>
      {name} <Status text={state} />
      {until !== undefined && (
        <>
          {" "}
          until <Time at={until} />
        </>
      )}
      {attempts > 1 && <>, {attempts} attempts</>}
      {began && ended && <>, {spanText(Date.parse(ended.time) - Date.parse(began.time))}</>}
      {began && !ended && until === undefined && (
        <>
          {" "}
          since <Time at={began.time} />
        </>
      )}
      {stored && (
        <>
          , <Link to={turnPath(agent, stored.seq)}>turn {stored.seq}</Link>
        </>
      )}
    </p>
  );
};

const Started = ({ list }: { readonly list: Workflows["started"] }) => (
  <Table
    label="Started workflows"
    columns={["Workflow", "Last reported status", "Started", "Changed", "Metadata", "Error"]}
    none="This agent has started no workflows."
    rows={list.map((one) => ({
      key: one.workflowId,
      cells: [
        one.class === undefined ? (
          <>
            {one.workflowName} {one.workflowId} <small>no instance stored</small>
          </>
        ) : (
          <Link to={`${agentPath({ class: one.class, name: one.workflowId })}/workflows`}>
            {one.workflowName} {one.workflowId}
          </Link>
        ),
        <Status text={one.status} />,
        <Time at={one.createdAt} />,
        <Time at={one.updatedAt} />,
        one.metadata === null ? "" : <code>{short(one.metadata)}</code>,
        one.error === null ? "" : <span className="bad">{one.error.message}</span>,
      ],
    }))}
  />
);
