/**
 * The costs of classes and of the busiest agents, with the stalls that they caused, and what they
 * spent of their budgets. The measurement is repeated while the view is shown.
 */
import { useEffect } from "react";
import { useAsk } from "./hooks.ts";
import { AgentLink, Answer, Table } from "./parts.tsx";
import type { Row as Cost, Top } from "../cli/commands/top.ts";

/** Pause between two measurements, each of which asks every shard twice. */
const PAUSE_MS = 5_000;
const COLUMNS = ["Turns/s", "ms in turns/s", "Commits/s", "Bytes/s", "Stalls", "Stalled s"];

export const Costs = () => {
  const found = useAsk<Top>("top");
  const { busy, again } = found;
  useEffect(() => {
    if (busy) return undefined;
    const timer = setTimeout(again, PAUSE_MS);
    return () => clearTimeout(timer);
  }, [busy, again]);
  return (
    <>
      <h2>What agents cost</h2>
      <Answer of={found}>
        {({ classes, agents, budgets }) => (
          <>
            <Table
              label="Cost by class"
              columns={["Class", ...COLUMNS]}
              none="No agent has run a turn since the hosts started."
              rows={classes.map((cost) => ({
                key: cost.class,
                cells: [cost.class, ...numbersOf(cost)],
              }))}
            />
            {agents.length > 0 && (
              <Table
                label="Cost of the busiest agents"
                columns={["Agent", ...COLUMNS, "Waiting"]}
                rows={agents.map((cost) => ({
                  key: `${cost.class}/${cost.name}`,
                  cells: [
                    <AgentLink agent={{ class: cost.class, name: cost.name ?? "" }} />,
                    ...numbersOf(cost),
                    cost.waiting,
                  ],
                }))}
              />
            )}
            {budgets.length > 0 && (
              <Table
                label="Budgets by class"
                columns={["Class", "Budget", "Spent", "Refused"]}
                rows={budgets.map(({ class: of, budget, spent, refused }) => ({
                  key: `${of} ${budget}`,
                  cells: [of, budget, spent, refused],
                }))}
              />
            )}
          </>
        )}
      </Answer>
    </>
  );
};

const numbersOf = (cost: Cost) => [
  cost.turns,
  cost.turnMs,
  cost.commits,
  cost.bytes,
  <span className={cost.stalls > 0 ? "bad" : ""}>{cost.stalls}</span>,
  cost.stalledSeconds,
];
