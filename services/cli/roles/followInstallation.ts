/**
 * `agents dev --from`: follows the journals of an installation, and delivers the webhooks that its
 * agents have processed to forks of these agents in the dev server. Runs in the control process,
 * which runs no module's code. `sealProcess` keeps everything that the forks send inside their
 * process.
 *
 * 1. The installation is only read: a login with `reader_may` is enough, and its processes notice
 *    nothing.
 * 2. A webhook is delivered when its turn has ended there. The results of its steps are sent first
 *    (`Recordings`), so steps return them here without calling other systems.
 * 3. Before its first webhook, an agent is forked as it was before that turn. An agent that already
 *    exists here is kept, and receives the webhook in its present state.
 * 4. Webhooks keep their dedup keys, so a webhook that the copied journal has processed is not
 *    processed again.
 */
import { deliveryIds } from "../../../schemas/DeliveryRecord.ts";
import { envelopeOf } from "../../../core/history/pastWebhooks.ts";
import { InputTurns, type PastTurn } from "../../../core/history/pastTurns.ts";
import { oneLine } from "../../../core/telemetry/printable.ts";
import { addressKey, type AgentId, type Sequence } from "../../../schemas/Address.ts";
import { decodeEvent, type JournalHead } from "../../../schemas/JournalEvent.ts";
import type { OpenBroker } from "../../wiring/Joins.ts";
import type { ReadPorts } from "../../wiring/ReadPorts.ts";
import type { Recording } from "../../workers/Recordings.ts";
import { withoutLogins } from "../terminal/commandLineSecrets.ts";
import { copyAgent } from "../agents/copyAgent.ts";
import { storeDelivery } from "../agents/storeDelivery.ts";
import { findClass } from "../agents/findAgent.ts";
import { filterOf } from "../commands/deliveries.ts";
import type { GivenFilter } from "../options/deliveryOptions.ts";
import { loginOf, type GivenLogin } from "../options/brokerLogin.ts";
import type { CommandContext } from "../options/CommandContext.ts";
import { NAMESPACE_DEFAULT } from "../../../schemas/Subjects.ts";
import { failed } from "../terminal/CliError.ts";
import { messageOf } from "../../../core/errors/thrown.ts";
import { counted } from "../../../schemas/counted.ts";

interface GivenInstallation extends GivenLogin, Pick<GivenFilter, "agent"> {
  readonly from: string;
  /** The namespace of both the installation and the dev server. */
  readonly namespace?: string;
}

export interface OpenInstallation {
  /** As `ServeWorkersOptions.beside`. */
  readonly follow: (
    broker: OpenBroker,
    tell: (recording: Recording) => void,
  ) => Promise<() => Promise<void>>;
  readonly close: () => Promise<void>;
}

/** Rejects as `Joins.openReader` does, and with `CliError` for a filter that selects nothing. */
export async function openInstallation(
  { joins, terminal }: CommandContext,
  given: GivenInstallation,
): Promise<OpenInstallation> {
  const namespace = given.namespace ?? NAMESPACE_DEFAULT;
  const login = loginOf(given, terminal.cwd);
  const there = await joins.openReader({ natsUrl: given.from, login, namespace });
  try {
    const { className, name } = await filterOf(there, given);
    if (className !== undefined && (await findClass(there.journal, className)) === undefined)
      terminal.err(
        `--agent: ${withoutLogins(given.from)} has no agents of class ${oneLine(className)}. Nothing is followed until it has one.`,
      );
    const filter =
      className === undefined ? {} : { className, ...(name === undefined ? {} : { name }) };
    return {
      follow: async ({ url }, tell) => {
        const here = await joins.openReader({ natsUrl: url, namespace });
        const follower = new Follower({ there, here, tell, terminal, time: joins.time });
        const ended = new AbortController();
        await there.feed.follow(filter, (id, { seq, data }) => follower.take(id, seq, data), {
          signal: ended.signal,
          onFailed: (error) =>
            terminal.err(
              `--from: webhooks no longer arrive (${String(error)}). Restart agents dev.`,
            ),
        });
        const shown = withoutLogins(given.from);
        const chosen = [className, name].filter((part) => part !== undefined).join("/");
        terminal.out(
          `Following ${shown}${chosen === "" ? "" : ` (only ${oneLine(chosen)})`}: webhooks that its agents have processed run on forks of them here. Nothing is sent from this process.`,
        );
        return async () => {
          ended.abort();
          await here.close();
        };
      },
      close: there.close,
    };
  } catch (error) {
    await there.close();
    throw error;
  }
}

interface Parts extends Pick<CommandContext, "terminal"> {
  readonly there: ReadPorts;
  readonly here: ReadPorts;
  readonly tell: (recording: Recording) => void;
  readonly time: CommandContext["joins"]["time"];
}

class Follower {
  private readonly nextId: (timeMs: number) => string;
  /** By agent; contains only agents with a turn that has not ended. */
  private readonly open = new Map<string, InputTurns>();
  /** By agent; resolves when the fork exists here, or rejects. */
  private readonly forks = new Map<string, Promise<void>>();

  constructor(private readonly parts: Parts) {
    this.nextId = deliveryIds(parts.time.id());
  }

  /** Processes an agent's next event. */
  async take(id: AgentId, seq: Sequence, data: Uint8Array): Promise<void> {
    const key = addressKey(id);
    const { head } = decodeEvent(data);
    const turns = this.open.get(key) ?? new InputTurns();
    const end = turns.add({ seq, head });
    if (turns.isIdle) this.open.delete(key);
    else this.open.set(key, turns);
    for (const turn of end?.turns.values() ?? []) {
      try {
        await this.deliver(id, head, turn);
      } catch (error) {
        // Only this webhook fails: its agent's history is incomplete, or the broker here can't be
        // reached.
        const message = messageOf(error);
        this.parts.terminal.err(`${oneLine(key)}: a webhook was skipped: ${message}`);
      }
    }
  }

  private async deliver(
    id: AgentId,
    head: JournalHead,
    { cause, from, steps }: PastTurn,
  ): Promise<void> {
    const { here, tell, terminal, time } = this.parts;
    if (cause.method === undefined)
      throw failed(
        "its turn began before this server started following, so its request is unknown",
      );
    await this.forkOnce(id, from);
    const key = cause.id!;
    tell({ key, steps });
    const envelope = envelopeOf(cause, head);
    const nowMs = time.nowMs();
    const again = { id: this.nextId(nowMs), of: cause.delivery, to: id, key, envelope };
    const refused = await storeDelivery(here, nowMs, again);
    if (refused !== undefined) throw failed(refused);
    const what = [cause.route ?? cause.url, cause.type].filter((part) => part !== undefined);
    terminal.out(oneLine(`${what.join(" ")} → ${addressKey(id)}  from the installation`));
  }

  /** Rule 3. A fork that failed is not tried again, because part of it may exist here. */
  private forkOnce(id: AgentId, before: number): Promise<void> {
    const key = addressKey(id);
    const fork = this.forks.get(key) ?? this.fork(id, before);
    this.forks.set(key, fork);
    return fork;
  }

  /** `before`: the first event of the turn that is about to run. */
  private async fork(id: AgentId, before: number): Promise<void> {
    const { there, here, terminal, time } = this.parts;
    if ((await here.journal.last(id)) !== undefined) return;
    const copy = { from: id, to: id, toSeq: (before - 1) as Sequence, advice: "" };
    const { events } = await copyAgent(there, here, time, copy);
    terminal.out(
      oneLine(`${addressKey(id)}: forked at sequence ${copy.toSeq}, ${counted(events, "event")}`),
    );
  }
}
