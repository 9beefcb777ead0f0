/** An agent's open sockets, as its host knows them now, page by page. */
import { agentPath, withQuery, type AgentName } from "./api.ts";
import { counted } from "../../schemas/counted.ts";
import { useAsk, useNewsCount, type Place } from "./hooks.ts";
import { Answer, Link, Table, Time } from "./parts.tsx";
import type { ConnectionsReply } from "../../schemas/bus/SocketLists.ts";

/** Fills some screens. */
const PAGE = 100;

const PLACES = {
  inMemory: "in memory",
  hibernated: "hibernated",
  isolated: "isolated in its own process, which may have more connections",
  quarantined: "quarantined",
} as const;

const framesText = (frames: number | undefined, bytes: number | undefined): string =>
  frames === undefined ? "unknown" : `${counted(frames, "frame")}, ${bytes} bytes`;

export const ConnectionsTab = (props: { readonly agent: AgentName; readonly place: Place }) => {
  const skip = Number(props.place.query.get("skip") ?? 0) || 0;
  const path = `${agentPath(props.agent)}/connections`;
  const news = useNewsCount(({ connections }) => connections === true);
  const found = useAsk<ConnectionsReply>(
    withQuery(path, { skip: skip || undefined, limit: PAGE }),
    news,
  );
  return (
    <Answer of={found}>
      {({ agent, total, connections }) => (
        <>
          <p>
            {total} open; the agent is {PLACES[agent]}.
          </p>
          <Table
            label="Connections"
            columns={["Connection", "Since", "Tags", "State", "In", "Out", "Streams", "Gateway"]}
            none="No connections."
            rows={connections.map((one) => ({
              key: `${one.gateway} ${one.sid}`,
              cells: [
                <>
                  {one.id}
                  {one.readonly && <small> readonly</small>}
                  {!one.protocol && <small> no protocol frames</small>}
                </>,
                <Time at={one.since} />,
                one.tags.filter((tag) => tag !== one.id).join(", "),
                one.stateBytes === 0 ? "none" : `${one.stateBytes} bytes`,
                framesText(one.traffic?.framesIn, one.traffic?.bytesIn),
                framesText(one.traffic?.framesOut, one.traffic?.bytesOut),
                one.reads === 0 ? "" : one.reads,
                one.gateway,
              ],
            }))}
          />
          <nav aria-label="Pages of connections">
            {skip > 0 && <Link to={withQuery(path, {})}>First connections</Link>}
            {skip + connections.length < total && (
              <Link to={withQuery(path, { skip: skip + PAGE })}>More connections</Link>
            )}
          </nav>
        </>
      )}
    </Answer>
  );
};
