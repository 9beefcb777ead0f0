/** Quarantined agents: why, until when, and how to release them. */
import { act, agentPath } from "./api.ts";
import { useAsk } from "./hooks.ts";
import { Act, AgentLink, Answer, Table } from "./parts.tsx";
import type { quarantineLine } from "../cli/agents/listQuarantined.ts";

type Quarantined = ReturnType<typeof quarantineLine>;

/** Renders nothing if there are none. A change of `version` loads them again. */
export const Quarantine = ({ version }: { readonly version: number }) => {
  const found = useAsk<ReadonlyArray<Quarantined>>("quarantined", version);
  return (
    <Answer of={found}>
      {(list) =>
        list.length === 0 ? null : (
          <>
            <h2>Quarantined agents</h2>
            <Table
              label="Quarantined agents"
              columns={["Agent", "Why", "Act"]}
              rows={list.map((agent) => ({
                key: `${agent.class}/${agent.name}`,
                cells: [
                  <AgentLink agent={agent} />,
                  agent.reason,
                  <Act
                    label="Release"
                    question={`Release ${agent.class}/${agent.name}? Its waiting inputs run at once.`}
                    onDone={found.again}
                    act={async () => {
                      await act(`${agentPath(agent)}/release`);
                      return "Released.";
                    }}
                  />,
                ],
              }))}
            />
          </>
        )
      }
    </Answer>
  );
};
