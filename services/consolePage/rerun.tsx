/**
 * Re-runs the past on other code: the webhooks of one turn, or the last ones, on a module as it is
 * now. Shows what differs. Nothing is stored or sent.
 */
import { useState, type ReactNode } from "react";
import { act, agentPath, withQuery, type AgentName } from "./api.ts";
import { useAsk, messageOf } from "./hooks.ts";
import { Answer, Link, Problem, Status, turnPath } from "./parts.tsx";
import type { Told as Outcome } from "../cli/commands/rerun.ts";

export const Rerun = ({ agent, seq }: { readonly agent: AgentName; readonly seq?: number }) => {
  const { modules, notice } = useModules();
  const [found, setFound] = useState<ReadonlyArray<Outcome>>();
  const [error, setError] = useState<string>();
  const [busy, setBusy] = useState(false);
  const run = async (module: string, failed: boolean): Promise<void> => {
    setBusy(true);
    setError(undefined);
    try {
      setFound(
        await act<ReadonlyArray<Outcome>>(
          withQuery(`${agentPath(agent)}/rerun`, {
            module,
            failed,
            ...(seq === undefined ? { limit: 100 } : { from: seq, to: seq }),
          }),
        ),
      );
    } catch (wrong) {
      setError(messageOf(wrong));
    } finally {
      setBusy(false);
    }
  };
  return (
    <section aria-label="Re-run">
      <h3>Re-run</h3>
      <p className="quiet">
        Runs {seq === undefined ? "each of the last 100 webhooks" : "the webhooks of this turn"}{" "}
        again, on the agent as it was then and on the current code. Nothing is stored or sent.
      </p>
      {notice}
      <div className="row">
        {modules.map((module) => (
          <span key={module} className="row">
            <button disabled={busy} onClick={() => void run(module, false)}>
              {busy ? "Running …" : `Run on ${module}`}
            </button>
            {seq === undefined && (
              <button disabled={busy} onClick={() => void run(module, true)}>
                Run only failed webhooks
              </button>
            )}
          </span>
        ))}
      </div>
      {error !== undefined && <Problem text={error} />}
      <div role="status">
        {found?.length === 0 && <p>No webhooks to run.</p>}
        {found?.map((one) => (
          <OneOutcome key={one.seq} agent={agent} one={one} />
        ))}
      </div>
    </section>
  );
};

/** The modules that the console may run, and what to show where there is none. */
export function useModules(): {
  readonly modules: ReadonlyArray<string>;
  readonly notice: ReactNode;
} {
  const overview = useAsk<{ readonly modules: ReadonlyArray<string> }>("overview");
  const notice = (
    <Answer of={overview}>
      {({ modules }) =>
        modules.length === 0 && (
          <p className="quiet">
            No module to run. Start the console with one: agents console --rerun src/server.ts.
          </p>
        )
      }
    </Answer>
  );
  return { modules: overview.value?.modules ?? [], notice };
}

const OneOutcome = ({ agent, one }: { readonly agent: AgentName; readonly one: Outcome }) => (
  <article>
    <p>
      <Status text={one.outcome} /> <Link to={turnPath(agent, one.seq)}>turn {one.seq}</Link>{" "}
      {one.inputs.join(", ")}
      {one.why !== undefined && <>: {one.why}</>}
    </p>
    <Changes of={one} />
  </article>
);

/** What differs, and what would be sent, once for all attempts. */
export const Changes = ({ of }: { readonly of: Pick<Outcome, "differences" | "sends"> }) => (
  <ul>
    {of.differences?.map((text, n) => (
      <li key={n}>
        <code>{text}</code>
      </li>
    ))}
    {[
      ...new Set(
        of.sends?.map(({ kind, method, url }) => (kind === "email" ? url : `${method} ${url}`)),
      ),
    ].map((text) => (
      <li key={`send ${text}`}>
        would send: <code>{text}</code>
      </li>
    ))}
  </ul>
);
