/**
 * Activation: from nothing in memory to a started agent. First phase of an agent's life on a host;
 * next: turns (`AgentSlot`), then hibernation (`hibernate.ts`).
 *
 * 1. The image is rebuilt (local cache, snapshot, journal tail).
 * 2. On the first activation under a new epoch a `claimed` event is appended: from then on an older
 *    owner's append is refused, and what this host reads can't be overtaken. An agent without a
 *    journal gets it with its first answer, unless that has written something (`Committer`, 3).
 *    When the append is refused, an older owner's last event came in between: rebuild and try again.
 * 3. The user's class is constructed and `onStart` runs.
 */
import type { AgentId, Epoch } from "../../schemas/Address.ts";
import { encodeEvent } from "../../schemas/JournalEvent.ts";
import { AgentDiscarded } from "../../core/agent/errors.ts";
import type { AppendResult } from "../../core/journal/Journal.ts";
import { NO_MAIL_TRANSPORT } from "../../core/mail/MailTransport.ts";
import { ActiveAgent, type AgentClassType } from "../../core/turn/ActiveAgent.ts";
import { applyEvent } from "../../core/turn/applyEvent.ts";
import { claimOf } from "../../core/turn/claimOf.ts";
import { Committer } from "../../core/turn/Committer.ts";
import { rebuildAgent, type Rebuilt } from "../../core/turn/rebuild.ts";
import type { Turn } from "../../core/turn/Turn.ts";
import type { HostServices } from "./HostServices.ts";
import { agentOutlet } from "./agentOutlet.ts";
import { bury } from "./bury.ts";

/** Refusals in a row after which somebody else is surely writing: leave the agent to them. */
const CLAIM_ATTEMPTS_MAX = 5;

export interface ActivateOptions {
  readonly epoch: Epoch;
  /** Fires when the shard is lost or the host stops. */
  readonly signal: AbortSignal;
  readonly agentClass: AgentClassType;
  readonly props: unknown;
  /** Somebody waits for it: it goes before agents that only have inputs. */
  readonly urgent?: boolean;
  readonly onCommitted: (agent: ActiveAgent, bytes: number) => void;
  readonly onFailed: (
    agent: ActiveAgent,
    outcome: AppendResult["_tag"] | "Defect",
    error: unknown,
  ) => void;
  readonly onAbort: (reason: string) => void;
  readonly onDestroyed: (agent: ActiveAgent, turn: Turn) => void;
  /** Before `onStart`: the agent's open sockets. */
  readonly prepare: (agent: ActiveAgent) => void;
}

export interface Activated {
  readonly agent: ActiveAgent;
  readonly replayed: Rebuilt["replayed"];
}

/** Rejects with `BrokerUnavailable`, `CorruptFrame`, `AgentDiscarded`, or what the user's code throws. */
export async function activate(
  services: HostServices,
  id: AgentId,
  options: ActivateOptions,
): Promise<Activated> {
  const { config, time, journal } = services;
  const rebuilt = await services.rebuilds.pass(options.urgent ?? false, () =>
    rebuildAndClaim(services, id, options),
  );
  const log = services.log;
  const agent = new ActiveAgent({
    image: rebuilt.image,
    database: rebuilt.database,
    agentClass: options.agentClass,
    env: services.module().env,
    time,
    ambient: services.ambient,
    log: {
      debug: (message, fields) => log.debug(message, { class: id.class, name: id.name, ...fields }),
      info: (message, fields) => log.info(message, { class: id.class, name: id.name, ...fields }),
      warn: (message, fields) => log.warn(message, { class: id.class, name: id.name, ...fields }),
      error: (message, fields) => log.error(message, { class: id.class, name: id.name, ...fields }),
    },
    outlet: agentOutlet(services),
    observability: services.observability,
    jobs: {
      inbox: services.inbox,
      timers: services.timers,
      cron: services.cron,
      signal: options.signal,
      bury: (input, reason) => bury(services, id, { seq: 0, reason, input }),
    },
    outgoing: services.outgoing,
    ...(services.mcp === undefined ? {} : { mcp: services.mcp }),
    mail: services.mail ?? NO_MAIL_TRANSPORT,
    onAbort: options.onAbort,
    // Only an agent that exists is destroyed.
    onDestroyed: (turn) => options.onDestroyed(agent, turn),
    makeCommitter: (self) =>
      new Committer({
        image: self.image,
        database: self.database,
        time,
        host: config.hostId,
        epoch: options.epoch,
        append: async (data, expectedSeq) => {
          const result = await journal.append(id, data, { expectedSeq, signal: options.signal });
          // Counted here: by the time that it is known the committer may have been abandoned.
          if (result._tag === "Conflict") services.metrics.refusedAppends();
          return result;
        },
        takeTriggers: () => self.takeTriggers(),
        onCommitted: (bytes) => options.onCommitted(self, bytes),
        onFailed: (outcome, error) => options.onFailed(self, outcome, error),
      }),
  });
  options.prepare(agent);
  try {
    await agent.start(options.props);
  } catch (error) {
    agent.discard();
    throw error;
  }
  return { agent, replayed: rebuilt.replayed };
}

async function rebuildAndClaim(
  services: HostServices,
  id: AgentId,
  options: ActivateOptions,
): Promise<Rebuilt> {
  const { config, time, journal, databases, snapshots } = services;
  for (let attempt = 1; ; attempt++) {
    if (options.signal.aborted) throw new AgentDiscarded();
    const rebuilt = await rebuildAgent(id, { journal, databases, snapshots });
    const { image, database } = rebuilt;
    if (image.seq === 0 || image.epoch === options.epoch) return rebuilt;
    if (image.epoch > options.epoch) {
      // A newer owner was here: our lease is gone, though we have not heard of it. Claiming now would
      // write an epoch that goes back (I3).
      database.close();
      throw new AgentDiscarded();
    }
    const head = claimOf(id, { host: config.hostId, epoch: options.epoch, time });
    const result = await journal.append(id, encodeEvent(head), {
      expectedSeq: image.seq,
      signal: options.signal,
    });
    if (result._tag === "Stored") {
      applyEvent(image, result.seq, head);
      return rebuilt;
    }
    database.close();
    // The cache may be what is wrong (it claims a sequence that the journal never had).
    databases.discard(id);
    if (result._tag === "Conflict") services.metrics.refusedAppends();
    if (result._tag === "Unknown" || attempt === CLAIM_ATTEMPTS_MAX) throw new AgentDiscarded();
  }
}
