/**
 * Outgoing webhooks on node:http and node:https (`core/outgoing/Outgoing`).
 *
 * 1. Every address that the host's name resolves to must be public, and only those addresses are
 *    connected to (`checkedLookup`).
 * 2. Nothing is written before the address of the connection's actual peer has been checked too.
 * 3. A connection is used once: a kept connection would have been checked for another call.
 */
import { createHmac } from "node:crypto";
import { lookup } from "node:dns";
import * as http from "node:http";
import * as https from "node:https";
import { isIP, type Socket } from "node:net";
import * as Layer from "effect/Layer";
import { joinSignals } from "../../core/lazyFetch/AbortSource.ts";
import {
  Outgoing,
  type OutgoingRequest,
  type OutgoingResult,
  type OutgoingShape,
} from "../../core/outgoing/Outgoing.ts";
import { checkedLookup, type LookupAll } from "./checkedLookup.ts";
import { isPublicAddress } from "./PublicAddress.ts";

/** A name or an address that webhooks may not be sent to. */
class NotPublic extends Error {}

const notPublic = (host: string): NotPublic =>
  new NotPublic(`${host} is not an address of the public internet (allowPrivate allows it)`);

/** Resolves names and decides which addresses are public. Tests provide their own. */
interface Resolver {
  readonly lookup: LookupAll;
  readonly isPublic: (address: string) => boolean;
}

function refusal({ hostname }: URL): string | undefined {
  const bare = hostname.replace(/^\[|\]$/g, "");
  const named = /(?:^|\.)localhost\.?$/i.test(bare);
  return named || (isIP(bare) !== 0 && !isPublicAddress(bare))
    ? notPublic(bare).message
    : undefined;
}

/** The adapter with a resolver. */
export function outgoingBy(resolver: Resolver): OutgoingShape {
  return {
    refusal,
    hmacSha256: (key, data) => new Uint8Array(createHmac("sha256", key).update(data).digest()),
    post: (request) => {
      const url = new URL(request.url);
      const refused = request.allowPrivate ? undefined : refusal(url);
      return refused === undefined
        ? post(resolver, url, request)
        : Promise.resolve({ _tag: "Refused", message: refused });
    },
  };
}

export const nodeOutgoing: OutgoingShape = outgoingBy({ lookup, isPublic: isPublicAddress });

function post(resolver: Resolver, url: URL, request: OutgoingRequest): Promise<OutgoingResult> {
  const body = Buffer.from(request.body);
  const timeout = AbortSignal.timeout(request.timeoutMs);
  const { abort } = request;
  const signal = abort === undefined ? timeout : joinSignals(timeout, abort);
  return new Promise((resolve) => {
    const client = url.protocol === "https:" ? https : http;
    const sent = client.request(url, {
      method: "POST",
      headers: { "user-agent": "agents", ...request.headers, "content-length": body.length },
      agent: false, // rule 3
      signal,
      ...(request.allowPrivate
        ? {}
        : { lookup: checkedLookup(resolver.lookup, resolver.isPublic, notPublic) }),
    });
    sent.once("socket", (socket) => {
      socket.once(client === https ? "secureConnect" : "connect", () => {
        if (request.allowPrivate || isPublicPeer(resolver, socket)) sent.end(body);
        else sent.destroy(notPublic(socket.remoteAddress ?? "the peer"));
      });
    });
    sent.once("response", (response) => {
      resolve({ _tag: "Answered", status: response.statusCode ?? 0 });
      // Only the status is used, and an endless body must not hold the connection.
      sent.destroy();
    });
    sent.on("error", (error: NodeJS.ErrnoException) => {
      if (error instanceof NotPublic) resolve({ _tag: "Refused", message: error.message });
      else resolve({ _tag: "Failed", message: explain(error, request) });
    });
  });
}

/** Rule 2. */
const isPublicPeer = ({ isPublic }: Resolver, { remoteAddress }: Socket): boolean =>
  remoteAddress !== undefined && isPublic(remoteAddress);

function explain(error: NodeJS.ErrnoException, { timeoutMs, abort }: OutgoingRequest): string {
  if (error.name !== "AbortError") return error.message || `${error.code}`;
  return abort?.fired === true ? "it was given up" : `no answer within ${timeoutMs} ms`;
}

export const layer: Layer.Layer<Outgoing> = Layer.succeed(Outgoing, nodeOutgoing);
