/**
 * Connects an installation in memory (`joinMemory`) with its driver, which it tells what work is
 * open, and with the globals of its agents' code. Used by `TestAgents` and `rerunEvent`.
 */
import { addressKey } from "../../schemas/Address.ts";
import { counted } from "../../schemas/counted.ts";
import { Driver } from "./Driver.ts";
import type { MemoryInstallation } from "./joinMemory.ts";
import type { TestOutgoing } from "./TestOutgoing.ts";
import { joinWorld } from "./virtualGlobals.ts";

export interface Driven {
  readonly driver: Driver;
  /** Ends the installation. Pending waits do not settle. */
  readonly close: () => Promise<void>;
}

export function drive(installation: MemoryInstallation, outgoing: TestOutgoing): Driven {
  const { time } = installation;
  const driver = new Driver({
    time,
    activity: () => installation.activity,
    isAlive: () => installation.alive,
    open: () => openWork(installation),
    isInTurn: () => installation.agents().some((agent) => !agent.idle),
    isWorking: () => installation.isWorking(),
    takeLoading: () => installation.takeLoading(),
  });
  const leaveWorld = joinWorld({
    time,
    isDead: (agent) => installation.isDead(agent),
    fetch: (request) => outgoing.fetch(request),
  });
  return {
    driver,
    close: async () => {
      driver.end();
      await driver.exclusive(() => installation.close());
      leaveWorld();
    },
  };
}

/** One line for each kind of unfinished work. */
function openWork(installation: MemoryInstallation): ReadonlyArray<string> {
  const { depth } = installation.broker.inbox;
  const { calling } = installation.calls;
  return [
    ...(depth > 0
      ? [`${counted(depth, "input")} in the inbox (webhooks, queue items, schedules)`]
      : []),
    ...(calling > 0 ? [`${calling} calls from outside (requests, RPC, frames of clients)`] : []),
    ...installation
      .agents()
      .filter((agent) => !agent.idle)
      .map((agent) => `turns of ${addressKey(agent.id)}`),
  ];
}
