/**
 * The gateway process's heart: sockets in, verified inputs to the inbox, calls to hosts, answers out. It
 * runs the module's routing code, never an agent's; it touches no journal.
 *
 * 1. Its lease `gateway.<id>` tells hosts that its sockets live; when it was lost (the broker was
 *    away) and is claimed anew, hosts are told of every socket again.
 * 2. A shard that changes hands ends the calls that wait for its old owner.
 */
import * as Effect from "effect/Effect";
import type * as Scope from "effect/Scope";
import type { Exchange, HttpHandlers, HttpRequest } from "../../core/http/HttpServer.ts";
import { pathOf } from "../../core/http/requestHead.ts";
import type { LeaseChange } from "../../core/lease/Leases.ts";
import { LeaseView, shardOfKey } from "../../core/lease/LeaseView.ts";
import { OwnLease } from "../../core/lease/OwnLease.ts";
import { UnownedShards } from "../../core/lease/UnownedShards.ts";
import type { GatewayServices } from "./GatewayServices.ts";
import { listen } from "./listen.ts";
import { addressOf, RateLimit, tooMany } from "./RateLimit.ts";
import { plain, toRequest, urlOf } from "./requests.ts";
import { answerRequest } from "./routeRequest.ts";
import { serveCensus, SocketTable } from "./SocketTable.ts";
import { decideUpgrade } from "./upgrade.ts";
import { WebhookEndpoint } from "./WebhookEndpoint.ts";

export class Gateway {
  private readonly services: GatewayServices;
  private readonly webhooks: WebhookEndpoint;
  readonly sockets: SocketTable;
  private readonly closers: Array<() => void> = [];
  private readonly watching = new AbortController();
  /** Written by the watch alone. */
  private readonly view = new LeaseView();
  private readonly unowned: UnownedShards;
  /** Shards that had an owner at some time since this gateway began. */
  private readonly everOwned = new Set<string>();
  private readonly addressLimit: RateLimit | undefined;
  private readonly ownLease: OwnLease;
  private cancelRenewal: (() => void) | undefined;

  private constructor(services: GatewayServices) {
    this.services = services;
    this.sockets = new SocketTable(services);
    this.webhooks = new WebhookEndpoint(services);
    const { config, time, leases, log } = services;
    this.ownLease = new OwnLease({
      leases,
      log,
      key: `gateway.${config.gatewayId}`,
      value: config.gatewayId,
      // Rule 1. Hosts that started while there was no lease have not asked this gateway for its
      // sockets. Not awaited: hosts may take long, and the lease would expire meanwhile.
      onClaimed: () => void this.sockets.resumeAll(),
    });
    this.unowned = new UnownedShards(config.shards, time.monotonicMs());
    const { addressRate } = config;
    this.addressLimit = addressRate === undefined ? undefined : new RateLimit(addressRate, time);
    this.closers.push(
      () => this.webhooks.close(),
      listen(services, config.subjects.gateway(config.gatewayId, "frame"), ({ data }) =>
        this.sockets.receive(data),
      ),
      serveCensus(services, this.sockets),
      // What its agents sent meanwhile is lost: each is told of its sockets, and answers with its state.
      services.bus.onReconnected(() => void this.sockets.resumeAll()),
    );
  }

  /** Runs until the scope closes. Give `handlers` to an `HttpServer`. */
  static make(services: GatewayServices): Effect.Effect<Gateway, never, Scope.Scope> {
    return Effect.acquireRelease(
      Effect.promise(async () => {
        const gateway = new Gateway(services);
        await services.leases.watch((c) => gateway.changed(c), gateway.watching.signal);
        await gateway.ownLease.renew();
        gateway.renewLater();
        return gateway;
      }),
      (gateway) => Effect.promise(() => gateway.stop()),
    );
  }

  get connected(): boolean {
    return this.services.bus.connected() && this.ownLease.isHeld;
  }

  /** Shards that have no owner now. */
  get shardsUnowned(): number {
    return this.unowned.count;
  }

  /** Those of them that have had none for longer than a take-over takes. */
  get shardsOverdue(): number {
    const { time, leases } = this.services;
    return this.unowned.overdue(time.monotonicMs(), leases.ttlMs);
  }

  /** Shards that have had one since this gateway began. */
  get shardsEverOwned(): number {
    return this.everOwned.size;
  }

  readonly handlers: HttpHandlers = {
    limitBody: (request) =>
      this.services.module().routes.match(pathOf(request.target))?.route.bodyBytesMax ??
      this.services.config.bodyBytesMax,
    onRequest: (exchange) => {
      const wait = this.waitOf(exchange.request);
      if (wait > 0) return exchange.respond(tooMany(wait));
      const match = this.services.module().routes.match(pathOf(exchange.request.target));
      // A signature says more about a caller than a name: tunnels may bring webhooks by names of their own.
      if (match === undefined || match.route.verifier.unsigned === true) {
        const refusal = this.services.access.refuseHost(exchange.request);
        if (refusal !== undefined) return exchange.respond(refusal);
      }
      if (match === undefined) return this.request(exchange);
      this.webhooks.handle(exchange, match);
    },
    onUpgrade: async (request, aborted) => {
      const wait = this.waitOf(request);
      if (wait > 0) return { _tag: "Refuse", response: tooMany(wait) };
      const refusal = this.services.access.refuseHost(request);
      if (refusal !== undefined) return { _tag: "Refuse", response: refusal };
      return decideUpgrade(this.services, this.sockets, request, aborted);
    },
    onFailure: ({ error, ...where }) =>
      this.services.log.error("a request could not be handled", {
        ...where,
        error: error instanceof Error ? (error.stack ?? error.message) : String(error),
      }),
  };

  /** Seconds that the caller's address has to wait; 0: none. Before anything else is done for it. */
  private waitOf(request: HttpRequest): number {
    const { trustedProxies } = this.services.config;
    return this.addressLimit?.take(addressOf(request, trustedProxies)) ?? 0;
  }

  private async request(exchange: Exchange): Promise<void> {
    const { config } = this.services;
    let request: Request;
    try {
      request = toRequest(
        exchange.request,
        urlOf(exchange.request, config.publicUrl),
        exchange.body,
        () => exchange.aborted,
      );
    } catch {
      return exchange.respond(plain(400, "Invalid request"));
    }
    const response = await answerRequest(this.services, request);
    if (response.rest === undefined) exchange.respond(response);
    else exchange.stream(response, response.rest);
  }

  private changed(change: LeaseChange): void {
    const { key, value } = change;
    const { calls, time } = this.services;
    const before = this.view.heard(change);
    // Rule 2.
    calls.leaseChanged(change, before);
    // Rule 1. At once: hosts are notified of the lease's end too.
    if (value === undefined && key === this.ownLease.key) void this.ownLease.renew();
    const shard = shardOfKey(key);
    if (shard === undefined) return;
    this.unowned.note(shard, value !== undefined, time.monotonicMs());
    if (value !== undefined) this.everOwned.add(key);
  }

  private renewLater(): void {
    const { time, leases } = this.services;
    if (this.watching.signal.aborted) return;
    this.cancelRenewal = time.after(
      leases.ttlMs / 3,
      () => void this.ownLease.renew().then(() => this.renewLater()),
    );
  }

  private async stop(): Promise<void> {
    this.watching.abort();
    this.cancelRenewal?.();
    for (const close of this.closers) close();
    await this.ownLease.release();
  }
}
