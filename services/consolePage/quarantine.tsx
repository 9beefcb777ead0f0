/**
 * Quarantined agents: until when and why, the release of each, and a run of its waiting inputs on
 * a fork first.
 */
import { useState } from "react";
import { act, agentPath } from "./api.ts";
import { useAsk } from "./hooks.ts";
import { OnFork } from "./onFork.tsx";
import { Act, AgentLink, Answer, Table, Time } from "./parts.tsx";
import type { quarantineLine } from "../cli/agents/listQuarantined.ts";

type Quarantined = ReturnType<typeof quarantineLine>;

/** Renders nothing if there are none. A change of `version` loads them again. */
export const Quarantine = ({ version }: { readonly version: number }) => {
  const found = useAsk<ReadonlyArray<Quarantined>>("quarantined", version);
  const [tried, setTried] = useState<Quarantined>();
  const release = (agent: Quarantined) => act(`${agentPath(agent)}/release`);
  return (
    <Answer of={found}>
      {(list) =>
        list.length === 0 ? null : (
          <>
            <h2>Quarantined agents</h2>
            <Table
              label="Quarantined agents"
              columns={["Agent", "Until", "Reason", "Actions"]}
              rows={list.map((agent) => ({
                key: `${agent.class}/${agent.name}`,
                cells: [
                  <AgentLink agent={agent} />,
                  <Time at={agent.until} />,
                  agent.reason,
                  <div className="row">
                    <Act
                      label="Release"
                      question={`Release ${agent.class}/${agent.name}? Its waiting inputs run at once.`}
                      onDone={found.again}
                      act={async () => {
                        await release(agent);
                        return "Released.";
                      }}
                    />
                    <button onClick={() => setTried(agent)}>On a fork first</button>
                  </div>,
                ],
              }))}
            />
            {tried !== undefined && (
              <OnFork
                key={agentPath(tried)}
                path={agentPath(tried)}
                label="Release"
                all={() => release(tried)}
                onDone={found.again}
              />
            )}
          </>
        )
      }
    </Answer>
  );
};
