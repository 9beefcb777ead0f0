/**
 * The installation's condition: hosts, agents by class and their cost, dead letters, and the last
 * deliveries.
 */
import { withQuery } from "./api.ts";
import { useAsk, useNewsCount } from "./hooks.ts";
import { Answer, Heading, Link, Table } from "./parts.tsx";
import { Quarantine } from "./quarantine.tsx";
import { Costs } from "./costs.tsx";
import type { Delivery } from "./deliveries.tsx";

interface OverviewNow {
  readonly namespace: string;
  readonly shards: number;
  readonly dead: number;
  readonly hosts: ReadonlyArray<{ readonly host: string; readonly shards: number }>;
  readonly classes: ReadonlyArray<{ readonly class: string; readonly agents: number }>;
}

/** Minutes in the plot, one bar each. */
const MINUTES = 60;
const MINUTE_MS = 60_000;
const HEIGHT = 80;
const WIDTH = 600;
const SHOWN = 500;

export const Overview = () => {
  const news = useNewsCount(
    ({ overview, agents }) => overview !== undefined || agents !== undefined,
  );
  const arrived = useNewsCount(({ deliveries }) => deliveries !== undefined);
  const found = useAsk<OverviewNow>("overview", news);
  const deliveries = useAsk<ReadonlyArray<Delivery>>(
    withQuery("deliveries", { since: "1h", limit: SHOWN }),
    arrived,
  );
  return (
    <>
      <Heading text="Overview" />
      <Answer of={found}>
        {({ hosts, shards, dead, classes }) => {
          const owned = hosts.reduce((sum, host) => sum + host.shards, 0);
          return (
            <>
              <ul className="tiles">
                <Tile title="Hosts" value={hosts.length} bad={hosts.length === 0} />
                <Tile
                  title="Shards with a host"
                  value={`${owned} of ${shards}`}
                  bad={owned < shards}
                />
                <Tile title="Dead letters" value={dead} bad={dead > 0} to="dead" />
                <Tile
                  title="Agents"
                  value={classes.reduce((sum, { agents }) => sum + agents, 0)}
                  to="agents"
                />
              </ul>
              <h2>Agents by class</h2>
              <Table
                label="Agents by class"
                columns={["Class", "Agents"]}
                none="No agents. An agent is created by its first input."
                rows={classes.map(({ class: name, agents }) => ({
                  key: name,
                  cells: [<Link to={withQuery("agents", { class: name })}>{name}</Link>, agents],
                }))}
              />
              <h2>Hosts</h2>
              <Table
                label="Hosts"
                columns={["Host", "Shards"]}
                none="No host is running. Start agents dev or agents host."
                rows={hosts.map(({ host, shards: many }) => ({ key: host, cells: [host, many] }))}
              />
            </>
          );
        }}
      </Answer>
      <Quarantine version={news} />
      <Costs />
      <h2>Deliveries of the last hour</h2>
      <Answer of={deliveries}>{(list) => <Hour list={list} />}</Answer>
    </>
  );
};

const Tile = (props: {
  readonly title: string;
  readonly value: string | number;
  readonly bad?: boolean;
  readonly to?: string;
}) => (
  <li>
    <span className="quiet">{props.title}</span>
    <strong className={props.bad === true ? "bad" : ""}>
      {props.to === undefined ? props.value : <Link to={props.to}>{props.value}</Link>}
    </strong>
  </li>
);

const isBad = ({ status }: Delivery): boolean =>
  ["refused", "unavailable", "failed", "dead"].includes(status);

const Hour = ({ list }: { readonly list: ReadonlyArray<Delivery> }) => {
  const endMs = Math.max(...list.map(({ time, at }) => time ?? at), 0);
  const bars = Array.from({ length: MINUTES }, () => ({ good: 0, bad: 0 }));
  for (const one of list) {
    const ago = Math.floor((endMs - (one.time ?? one.at)) / MINUTE_MS);
    const bar = bars[MINUTES - 1 - ago];
    if (bar !== undefined) bar[isBad(one) ? "bad" : "good"]++;
  }
  const most = Math.max(1, ...bars.map(({ good, bad }) => good + bad));
  const took = list.flatMap(({ ms }) => ms ?? []).toSorted((a, b) => a - b);
  const at = (part: number): string =>
    took.length === 0 ? "–" : `${took[Math.floor((took.length - 1) * part)]!.toFixed(1)} ms`;
  const bad = list.filter(isBad).length;
  if (list.length === 0) return <p className="quiet">No deliveries in the last hour.</p>;
  return (
    <>
      <p>
        {list.length >= SHOWN ? `The last ${SHOWN}` : list.length} deliveries, {bad} of them refused
        or failed. Time to the answer: p50 {at(0.5)}, p95 {at(0.95)}.
      </p>
      <svg
        viewBox={`0 0 ${WIDTH} ${HEIGHT}`}
        preserveAspectRatio="none"
        role="img"
        aria-label="Deliveries per minute"
        className="plot"
      >
        {bars.map((bar, n) => {
          const [good, wrong] = [(bar.good / most) * HEIGHT, (bar.bad / most) * HEIGHT];
          const x = (n * WIDTH) / MINUTES;
          return (
            <g key={n}>
              <rect
                className="bar"
                x={x}
                width={WIDTH / MINUTES - 1}
                y={HEIGHT - good}
                height={good}
              />
              <rect
                className="bar bad"
                x={x}
                width={WIDTH / MINUTES - 1}
                y={HEIGHT - good - wrong}
                height={wrong}
              />
            </g>
          );
        })}
      </svg>
      <p>
        <Link to="deliveries">All deliveries</Link>
      </p>
    </>
  );
};
