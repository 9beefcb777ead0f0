/**
 * Tries inputs on forks first: runs dead letters, a delivery, or what waits for a quarantined
 * agent, on copies of their agents in memory, and shows the outcomes. Inputs that did not fail can
 * then be sent to the agents themselves.
 */
import { useState } from "react";
import { counted } from "../../schemas/counted.ts";
import { act, withQuery } from "./api.ts";
import { Act, AgentLink, Status } from "./parts.tsx";
import { Changes, useModules } from "./rerun.tsx";
import type { Tried } from "../cli/agents/onFork.ts";

export const OnFork = (props: {
  /** The path of the API, below `/api`. */
  readonly path: string;
  /** The number of inputs; absent if it is not known before they run. */
  readonly count?: number;
  /** Redrives or redelivers one input that did not fail on its fork. */
  readonly one?: (id: Tried["id"]) => Promise<unknown>;
  /** Replaces `one`: releases the agent, if nothing failed. */
  readonly all?: () => Promise<unknown>;
  /** `Redrive`, `Redeliver` or `Release`. */
  readonly label: string;
  readonly onDone?: () => void;
}) => {
  const { modules, notice } = useModules();
  const [ran, setFound] = useState<ReadonlyArray<Tried>>();
  const [said, setSaid] = useState("");
  const found = ran ?? [];
  const good = found.filter(({ outcome }) => outcome === "done");
  const fails = found.filter(({ outcome }) => outcome === "fails");
  const many = (count: number): string => counted(count, "input");
  const run = async (module: string): Promise<string> => {
    setFound(undefined);
    setSaid("");
    setFound(await act<ReadonlyArray<Tried>>(withQuery(`${props.path}/on-fork`, { module })));
    return "";
  };
  const { all } = props;
  const forward = async (): Promise<string> => {
    if (all !== undefined) await all();
    else
      for (const { id } of good) {
        await props.one?.(id);
        // If the next one fails, this one is not sent again.
        setFound((left) => left?.filter((each) => each.id !== id));
      }
    setFound(all === undefined ? fails : undefined);
    setSaid(all === undefined ? `${many(good.length)} stored in the inbox again.` : "Released.");
    props.onDone?.();
    return "";
  };
  const mayGo = all === undefined ? good.length > 0 : ran !== undefined && fails.length === 0;
  const what = props.count === undefined ? "the waiting inputs" : many(props.count);
  return (
    <section aria-label="On a fork first">
      <h3>On a fork first</h3>
      <p className="quiet">
        Runs on a copy of the agent as it is now, in memory and on the current code. Nothing is
        stored or sent. Steps return their recorded results, and other calls fail.
      </p>
      {notice}
      <div className="row">
        {modules.map((module) => (
          <Act
            key={module}
            label={`Run on a fork on ${module}`}
            disabled={props.count === 0}
            question={`Run ${what} on forks in memory, on ${module}? Nothing is stored or sent.`}
            act={() => run(module)}
          />
        ))}
        {mayGo && (
          <Act
            label={
              all === undefined
                ? `${props.label} the ${good.length} that did not fail`
                : `${props.label} after the fork`
            }
            question={`${props.label} ${all === undefined ? many(good.length) : `the agent with ${many(good.length)}`}? Each runs on its agent, on the hosts' code, with all its attempts and calls.`}
            act={forward}
          />
        )}
      </div>
      <p role="status">
        {ran !== undefined && `${fails.length} of ${many(found.length)} failed. `}
        {said}
      </p>
      {found.map((one) => (
        <article key={one.id}>
          <p>
            <Status text={one.outcome} /> {one.id} on a fork of <AgentLink agent={one} /> at turn{" "}
            {one.seq}
            {one.why !== undefined && <>: {one.why}</>}
          </p>
          <Changes of={one} />
        </article>
      ))}
    </section>
  );
};
