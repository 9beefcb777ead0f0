/**
 * Keeps the sockets of one process: a `SocketTable` that hosts can reach by name. A gateway has one
 * for its clients; a process without a gateway has one for the sockets that its code opens with a
 * stub's `fetch`.
 *
 * 1. The lease `gateway.<id>` shows hosts that the sockets are alive. After a lost lease (the
 *    broker was away) is claimed again, hosts are notified of every socket.
 */
import { GATEWAY_KEYS } from "../../core/lease/leaseKeys.ts";
import { interval } from "../../core/time/interval.ts";
import * as Effect from "effect/Effect";
import { Bus } from "../../core/bus/Bus.ts";
import type { CallClient } from "../../core/call/CallClient.ts";
import { Leases, type LeaseChange } from "../../core/lease/Leases.ts";
import { Log } from "../../core/telemetry/Log.ts";
import { Time } from "../../core/time/Time.ts";
import { OwnLease, type LeaseFailure } from "../../core/lease/OwnLease.ts";
import type { SocketHolder } from "../../core/socket/PendingSocket.ts";
import type { Connected, StubSockets, UpgradeCall } from "../../core/namespace/stubTarget.ts";
import { stackOf } from "../../core/errors/thrown.ts";
import type { AgentId } from "../../schemas/Address.ts";
import { decodeMessage, encodeMessage } from "../../schemas/bus/message.ts";
import type { CensusRequest, TrafficRequest } from "../../schemas/bus/SocketLists.ts";
import { connectSocket } from "./connectSocket.ts";
import { GATEWAY_BOUNDS_DEFAULT } from "./GatewayConfig.ts";
import { listen } from "./listen.ts";
import { SocketTable, type SocketServices } from "./SocketTable.ts";

export class SocketKeeper implements StubSockets {
  readonly table: SocketTable;
  private readonly ownLease: OwnLease;
  private readonly closers: Array<() => void> = [];
  private started: Promise<void> | undefined;
  private stopped = false;

  constructor(private readonly services: SocketServices) {
    this.table = new SocketTable(services);
    const { config, leases, log, time } = services;
    this.ownLease = new OwnLease({
      leases,
      log,
      time,
      key: `${GATEWAY_KEYS}${config.gatewayId}`,
      value: config.gatewayId,
      // Rule 1. Hosts that started without the lease have not asked for these sockets. Not awaited,
      // because hosts may take long, and the lease would expire meanwhile.
      onClaimed: () => void this.table.resumeAll(),
    });
  }

  /** Undefined while the broker stores the lease. */
  get leaseFailure(): LeaseFailure | undefined {
    return this.ownLease.failure;
  }

  /** Resolves when hosts can reach its sockets. Further calls return the same promise. */
  start(): Promise<void> {
    return (this.started ??= this.begin());
  }

  private async begin(): Promise<void> {
    const { services, table } = this;
    const { bus, config } = services;
    this.closers.push(
      listen(services, config.subjects.gateway(config.gatewayId, "frame"), ({ data }) =>
        table.onHostMessage(data),
      ),
      listen(services, config.subjects.gateway(config.gatewayId, "census"), ({ data, reply }) => {
        if (reply === undefined) return;
        const { head } = decodeMessage<CensusRequest | TrafficRequest>(data);
        const isTraffic = "traffic" in head;
        bus.publish(reply, isTraffic ? encodeMessage(table.traffic(head)) : table.census(head));
      }),
      // Frames sent while the broker was away are lost. Each agent is notified of its sockets and
      // sends its state.
      bus.onReconnected(() => void table.resumeAll()),
    );
    await this.ownLease.renew();
    const { time, leases } = services;
    if (!this.stopped)
      this.closers.push(interval(time, leases.ttlMs / 3, () => this.ownLease.renew()));
  }

  /** Called by the watch of the leases. Applies rule 1 at once: hosts learn of the end, too. */
  leaseChanged({ key, value }: LeaseChange): void {
    if (value === undefined && key === this.ownLease.key) void this.ownLease.renew();
  }

  /** As `connectSocket`. */
  async connect(id: AgentId, upgrade: UpgradeCall): Promise<Connected> {
    await this.start();
    return connectSocket(this.services, this.table, id, upgrade);
  }

  /** The holder of sockets of code outside of agents, which lives as long as the process. */
  holder(): SocketHolder {
    const { log, time } = this.services;
    return {
      hold: () => () => undefined,
      later: (f) => void time.after(0, f),
      run: (f) =>
        void f().catch((error: unknown) =>
          log.error("a listener of a socket failed", { error: stackOf(error) }),
        ),
    };
  }

  async stop(): Promise<void> {
    this.stopped = true;
    for (const close of this.closers) close();
    await this.ownLease.release();
  }
}

/** The keeper of a process without a gateway; runs until the scope closes. */
export const ownSockets = (
  config: Pick<SocketServices["config"], "gatewayId" | "shards" | "subjects">,
  calls: CallClient,
) =>
  Effect.gen(function* () {
    const [bus, leases, log, time] = [yield* Bus, yield* Leases, yield* Log, yield* Time];
    const all = { ...GATEWAY_BOUNDS_DEFAULT, ...config };
    return yield* Effect.acquireRelease(
      Effect.sync(() => new SocketKeeper({ config: all, calls, bus, leases, log, time })),
      (keeper) => Effect.promise(() => keeper.stop()),
    );
  });

/** Sockets for code that is loaded before the keeper of its process exists. */
export class LateSockets implements StubSockets {
  private keeper: SocketKeeper | undefined;
  private readonly made: Promise<SocketKeeper>;
  /** Called once. */
  readonly set: (keeper: SocketKeeper) => void;

  constructor() {
    let made: (keeper: SocketKeeper) => void;
    this.made = new Promise((resolve) => (made = resolve));
    this.set = (keeper) => made((this.keeper = keeper));
  }

  async connect(id: AgentId, upgrade: UpgradeCall): Promise<Connected> {
    return (await this.made).connect(id, upgrade);
  }

  /** Called only after a `connect` has resolved. */
  holder(): SocketHolder {
    return this.keeper!.holder();
  }
}
