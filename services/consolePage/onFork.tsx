/**
 * Tries inputs on forks first: runs dead letters, or a delivery, on copies of their agents in
 * memory, and shows the outcomes. Inputs that did not fail can then be sent to the agents
 * themselves.
 */
import { useState } from "react";
import { act, withQuery } from "./api.ts";
import { useAsk } from "./hooks.ts";
import { Act, AgentLink, Status } from "./parts.tsx";
import { Changes, NoModule } from "./rerun.tsx";
import type { Tried } from "../cli/agents/onFork.ts";

export const OnFork = (props: {
  /** The path of the API, below `/api`. */
  readonly path: string;
  readonly count: number;
  /** Redrives or redelivers one input that did not fail on its fork. */
  readonly one: (id: Tried["id"]) => Promise<unknown>;
  /** `Redrive` or `Redeliver`. */
  readonly label: string;
  readonly onDone?: () => void;
}) => {
  const overview = useAsk<{ readonly modules: ReadonlyArray<string> }>("overview");
  const [found, setFound] = useState<ReadonlyArray<Tried>>([]);
  const [said, setSaid] = useState("");
  const modules = overview.value?.modules ?? [];
  const good = found.filter(({ outcome }) => outcome === "done");
  const fails = found.filter(({ outcome }) => outcome === "fails");
  const many = (count: number): string => `${count} ${count === 1 ? "input" : "inputs"}`;
  const run = async (module: string): Promise<string> => {
    setFound([]);
    setSaid("");
    setFound(await act<ReadonlyArray<Tried>>(withQuery(`${props.path}/on-fork`, { module })));
    return "";
  };
  const forward = async (): Promise<string> => {
    for (const { id } of good) await props.one(id);
    setFound(fails);
    setSaid(`${many(good.length)} in the inbox again.`);
    props.onDone?.();
    return "";
  };
  return (
    <section aria-label="On a fork first">
      <h3>On a fork first</h3>
      <p className="quiet">
        On a copy of the agent as it is now, in memory and on the code as it is now. Nothing is
        stored or sent; steps have the results of then, and other calls fail.
      </p>
      {overview.value !== undefined && modules.length === 0 && <NoModule />}
      <div className="row">
        {modules.map((module) => (
          <Act
            key={module}
            label={`Run on a fork on ${module}`}
            disabled={props.count === 0}
            question={`Run ${many(props.count)} on forks in memory, on ${module}? Nothing is stored or sent.`}
            act={() => run(module)}
          />
        ))}
        {good.length > 0 && (
          <Act
            label={`${props.label} the ${good.length} that did not fail`}
            question={`${props.label} ${many(good.length)}? Each runs on its agent, on the hosts' code, with all its attempts and calls.`}
            act={forward}
          />
        )}
      </div>
      <p role="status">
        {found.length > 0 && `${fails.length} of ${many(found.length)} failed. `}
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
