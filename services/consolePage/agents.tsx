/**
 * Which agents exist: search, and pages of a list of any length. News refreshes the first page;
 * each further page begins after the last agent shown.
 */
import { useState } from "react";
import { withQuery } from "./api.ts";
import { goQuietly, useAsk, useNextPage, useNewsCount, useRested, type Place } from "./hooks.ts";
import { AgentLink, Answer, Field, Heading, Problem, Table, Time } from "./parts.tsx";
import type { ListedAgent as Listed } from "../cli/commands/list.ts";

interface Pages {
  readonly list: ReadonlyArray<Listed>;
  readonly isAll: boolean;
}
const NONE = { question: "", list: [], isAll: false };

/** Some screens; each agent costs the broker a look-up. */
const PAGE = 100;

export const Agents = ({ place }: { readonly place: Place }) => {
  const filter = { class: place.query.get("class") ?? "", text: place.query.get("text") ?? "" };
  const set = (change: Partial<typeof filter>): void =>
    goQuietly(withQuery("agents", { ...filter, ...change }));
  const news = useNewsCount(({ agents }) => agents !== undefined);
  const question = useRested(withQuery("agents", { ...filter, limit: PAGE }));
  const first = useAsk<ReadonlyArray<Listed>>(question, news);
  /** What was shown when the last page was asked for, and that page. */
  const [pages, setPages] = useState<{ readonly question: string } & Pages>(NONE);
  const more = useNextPage<ReadonlyArray<Listed>>(question, (page) =>
    setPages(({ list }) => ({ question, list: [...list, ...page], isAll: page.length < PAGE })),
  );
  const { list, isAll } = shownOf(first.value ?? [], pages.question === question ? pages : NONE);
  const showMore = (): void => {
    const { class: className, name } = list.at(-1)!;
    setPages({ question, list, isAll });
    void more.next(`${question}&after=${encodeURIComponent(`${className}/${name}`)}`);
  };
  return (
    <>
      <Heading text="Agents" />
      <form className="row" role="search" onSubmit={(event) => event.preventDefault()}>
        <Field label="Class" value={filter.class} onChange={(name) => set({ class: name })} />
        <Field label="Name contains" value={filter.text} onChange={(text) => set({ text })} />
      </form>
      <Answer of={first}>{() => <AgentTable list={list} />}</Answer>
      {more.error !== undefined && <Problem text={more.error} />}
      {!isAll && <button onClick={showMore}>More</button>}
    </>
  );
};

/** `first`, and those of `pages` after it: news has moved it since. */
function shownOf(first: ReadonlyArray<Listed>, pages: Pages): Pages {
  const last = first.at(-1);
  if (last === undefined || first.length < PAGE) return { list: first, isAll: true };
  const rest = pages.list.filter((agent) => isAfter(agent, last));
  return { list: [...first, ...rest], isAll: pages.isAll };
}

/** In the order of the console's list. */
const isAfter = (a: Listed, b: Listed): boolean =>
  a.class === b.class ? a.name > b.name : a.class > b.class;

const AgentTable = ({ list }: { readonly list: ReadonlyArray<Listed> }) => (
  <Table
    label="Agents"
    columns={["Agent", "Events", "Last", "Host"]}
    none="No agents."
    rows={list.map((agent) => ({
      key: `${agent.class}/${agent.name}`,
      cells: [
        <AgentLink agent={agent} />,
        agent.events,
        <Time at={agent.time} />,
        agent.owner ?? "no host",
      ],
    }))}
  />
);
