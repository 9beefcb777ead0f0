/**
 * Explains why a server cannot listen on an address, with a message that names the remedy, also
 * before its process has started what takes time. NodeServer.ts passes the error code of node:net.
 * uWebSockets.js reports no reason, so its address is tried again with node:net, only to learn the
 * code.
 */
import * as Effect from "effect/Effect";
import { createServer } from "node:net";
import { hostAndPort } from "../../core/http/hostAndPort.ts";
import { ListenFailed } from "../../core/http/HttpServer.ts";

interface ListenAddress {
  readonly hostname: string;
  readonly port: number;
}

/** Makes the error for an error code of node:net. An unknown code becomes part of the message. */
export const listenFailed = ({ hostname, port }: ListenAddress, code: string): ListenFailed =>
  new ListenFailed({ port, message: explain(hostAndPort(hostname, port), code) });

/** Tries the address and succeeds with the reason, even if it has become free meanwhile. */
export const explainListen = (address: ListenAddress): Effect.Effect<ListenFailed> =>
  Effect.match(checkListen(address), {
    onFailure: (failed) => failed,
    onSuccess: () => listenFailed(address, "unknown"),
  });

/** Fails if no server can listen on the address now. */
export const checkListen = (address: ListenAddress): Effect.Effect<void, ListenFailed> =>
  Effect.callback((resume) => {
    const probe = createServer();
    probe.once("error", (cause: NodeJS.ErrnoException) =>
      resume(Effect.fail(listenFailed(address, cause.code ?? "unknown"))),
    );
    probe.listen({ host: address.hostname, port: address.port, exclusive: true }, () =>
      probe.close(() => resume(Effect.void)),
    );
  });

const explain = (address: string, code: string): string => {
  switch (code) {
    case "EADDRINUSE":
      return `${address} is in use by another process: stop it, or choose another port`;
    case "EACCES":
      return `${address} needs privileges that this user does not have: choose a port of 1024 or above`;
    case "EADDRNOTAVAIL":
      return `${address} is not an address of this machine: choose one that is, or 0.0.0.0`;
    case "ENOTSUP":
      return `${address} can't be shared by several processes with node:http of Node ${process.versions.node}: install uWebSockets.js, use Node 22.12 or newer, or run one gateway`;
    case "ENOTFOUND":
    case "EAI_AGAIN":
      return `${address} is not a known host: check the host name`;
    default:
      return `${address} can't be listened on (${code})`;
  }
};
