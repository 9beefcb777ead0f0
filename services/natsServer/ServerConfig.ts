/**
 * The text of the configuration file for a nats-server that this package starts: `NatsServer` (a
 * laptop) and the test kit write it and start the server with it. Servers that others run are
 * configured by others.
 */

interface ServerConfig {
  /** Part of the server's greeting, by which `ServerProcess` recognizes its own server. */
  readonly serverName: string;
  readonly port: number;
  /** Folder of JetStream's files, which the server creates. */
  readonly storeDir: string;
  readonly maxPayloadBytes: number;
  /** Each stored message is fsynced before its ack: safe against power loss, but slower. */
  readonly syncAlways: boolean;
  /** Further top-level lines in the server's own syntax. */
  readonly extra?: string | undefined;
}

/**
 * The largest limit that the server accepts without a warning. Events and bodies larger than a
 * message go to the object store, which costs round trips.
 */
export const MAX_PAYLOAD_BYTES_DEFAULT = 8 * 1024 * 1024;

/**
 * What the server keeps for one connection that reads slower than it is written to; past it, the
 * server closes the connection, and what waited is lost. Its default of 64 MiB is eight answers of
 * the largest size: callers of a gateway that ask for large answers at once would cut it off.
 */
const MAX_PENDING_BYTES = 256 * 1024 * 1024;

/** The file's text. The server listens on 127.0.0.1 only, because it has no authentication. */
export function serverConfigText(config: ServerConfig): string {
  return [
    "# Generated: changes are lost at the next start.",
    `server_name: ${quoted(config.serverName)}`,
    `listen: "127.0.0.1:${config.port}"`,
    `max_payload: ${config.maxPayloadBytes}`,
    `max_pending: ${MAX_PENDING_BYTES}`,
    "jetstream {",
    `  store_dir: ${quoted(config.storeDir)}`,
    ...(config.syncAlways ? ["  sync_interval: always"] : []),
    "}",
    config.extra ?? "",
    "",
  ].join("\n");
}

/** The server's strings use JSON's escapes for quotes and backslashes, which suffice for a path. */
function quoted(text: string): string {
  return JSON.stringify(text);
}
