/**
 * The agents that exist: a search, and a list of any length, page by page. News refreshes the part
 * that is shown (`AgentPages`).
 */
import { useContext, useEffect, useMemo, useReducer, useState } from "react";
import { AgentPages, PAGE } from "./AgentPages.ts";
import { ask, withQuery } from "./api.ts";
import { goQuietly, NewsContext, useRested, type Place } from "./hooks.ts";
import { AgentLink, Field, Heading, Problem, Table, Time, type TableRow } from "./parts.tsx";
import type { ListedAgent as Listed } from "../cli/commands/list.ts";

interface Filter {
  readonly class: string;
  readonly text: string;
}

export const Agents = ({ place }: { readonly place: Place }) => {
  const filter = { class: place.query.get("class") ?? "", text: place.query.get("text") ?? "" };
  const set = (change: Partial<Filter>): void =>
    goQuietly(withQuery("agents", { ...filter, ...change }));
  const rested = { class: useRested(filter.class), text: useRested(filter.text) };
  const pages = useAgentPages(rested);
  return (
    <>
      <Heading text="Agents" />
      <form className="row" role="search" onSubmit={(event) => event.preventDefault()}>
        <Field label="Class" value={filter.class} onChange={(name) => set({ class: name })} />
        <Field label="Name contains" value={filter.text} onChange={(text) => set({ text })} />
      </form>
      {pages?.error !== undefined && <Problem text={pages.error} />}
      {pages?.list !== undefined ? (
        <AgentTable list={pages.list} />
      ) : (
        pages?.error === undefined && <p className="quiet">Loading…</p>
      )}
      {pages?.list !== undefined && !pages.isAll && <button onClick={pages.more}>More</button>}
    </>
  );
};

const pageTime = {
  monotonicMs: () => performance.now(),
  after: (ms: number, run: () => void) => {
    const timer = setTimeout(run, ms);
    return () => clearTimeout(timer);
  },
};

/** Undefined at first. */
function useAgentPages({ class: className, text }: Filter): AgentPages | undefined {
  const watch = useContext(NewsContext);
  const [pages, setPages] = useState<AgentPages>();
  const [, draw] = useReducer((count: number) => count + 1, 0);
  useEffect(() => {
    const made = new AgentPages({
      filter: { class: className, text },
      ask: ({ after, fresh }, signal) => {
        const from = after && `${after.class}/${after.name}`;
        const wanted = { class: className, text, limit: PAGE, after: from, fresh };
        return ask<ReadonlyArray<Listed>>(withQuery("agents", wanted), { signal });
      },
      onChange: draw,
      time: pageTime,
    });
    setPages(made);
    const stop = watch((news) => made.hear(news));
    return () => {
      stop();
      made.close();
    };
  }, [className, text, watch]);
  return pages;
}

const AgentTable = ({ list }: { readonly list: ReadonlyArray<Listed> }) => {
  // Cells of an agent are made once: `Table` draws only rows of pages that were requested again.
  const drawn = useMemo(() => new WeakMap<Listed, TableRow["cells"]>(), []);
  const cellsOf = (agent: Listed): TableRow["cells"] => {
    let cells = drawn.get(agent);
    if (cells === undefined) drawn.set(agent, (cells = agentCells(agent)));
    return cells;
  };
  return (
    <Table
      label="Agents"
      columns={["Agent", "Events", "Last event", "Host"]}
      none="No agents."
      rows={list.map((agent) => ({ key: `${agent.class}/${agent.name}`, cells: cellsOf(agent) }))}
    />
  );
};

const agentCells = (agent: Listed): TableRow["cells"] => [
  <AgentLink agent={agent} />,
  agent.events,
  <Time at={agent.time} />,
  agent.owner ?? "no host",
];
