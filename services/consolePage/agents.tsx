/** Which agents exist: search, and pages of a list of any length. */
import { useEffect, useState } from "react";
import { ask, withQuery } from "./api.ts";
import { goQuietly, messageOf, useAsk, useNewsCount, type Place } from "./hooks.ts";
import { AgentLink, Answer, Field, Heading, Problem, Table, Time } from "./parts.tsx";

interface Listed {
  readonly class: string;
  readonly name: string;
  readonly events: number;
  readonly lastSeq: number;
  readonly time: string;
  readonly owner?: string;
}

/** Some screens; each agent costs the broker a look-up. */
const PAGE = 100;

export const Agents = ({ place }: { readonly place: Place }) => {
  const filter = { class: place.query.get("class") ?? "", text: place.query.get("text") ?? "" };
  const set = (change: Partial<typeof filter>): void =>
    goQuietly(withQuery("agents", { ...filter, ...change }));
  const news = useNewsCount(({ agents }) => agents !== undefined);
  const question = withQuery("agents", { ...filter, limit: PAGE });
  const first = useAsk<ReadonlyArray<Listed>>(question, news);
  const [more, setMore] = useState<ReadonlyArray<Listed>>([]);
  const [error, setError] = useState<string>();
  useEffect(() => setMore([]), [question]);
  const next = async (after: Listed): Promise<void> => {
    try {
      const page = await ask<ReadonlyArray<Listed>>(
        withQuery("agents", { ...filter, limit: PAGE, after: `${after.class}/${after.name}` }),
      );
      setError(undefined);
      setMore((shown) => [...shown, ...page]);
    } catch (wrong) {
      setError(messageOf(wrong));
    }
  };
  return (
    <>
      <Heading text="Agents" />
      <form className="row" role="search" onSubmit={(event) => event.preventDefault()}>
        <Field label="Class" value={filter.class} onChange={(name) => set({ class: name })} />
        <Field label="Name contains" value={filter.text} onChange={(text) => set({ text })} />
      </form>
      <Answer of={first}>
        {(page) => {
          const list = [...page, ...more];
          return (
            <>
              <AgentTable list={list} />
              {error !== undefined && <Problem text={error} />}
              {list.length > 0 && list.length % PAGE === 0 && (
                <button onClick={() => void next(list.at(-1)!)}>More</button>
              )}
            </>
          );
        }}
      </Answer>
    </>
  );
};

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
