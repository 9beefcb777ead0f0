/**
 * The configuration file of the nats-server that we start ourselves. Owns its text; `NatsServer`
 * (a laptop) and the test kit write it out and start the server with it. Servers that others run are
 * configured by others.
 */

export interface ServerConfig {
  /** Shown in the server's greeting: by it we know that the one that answers is ours. */
  readonly serverName: string;
  readonly port: number;
  /** JetStream's files; the server makes the folder. */
  readonly storeDir: string;
  readonly maxPayloadBytes: number;
  /** Each stored message is fsynced before its ack: safe against power loss, and slower. */
  readonly syncAlways: boolean;
  /** More lines in the server's own syntax, at the top level. */
  readonly extra?: string | undefined;
}

/**
 * Also the most that the server takes without a warning. Events and bodies larger than a message go
 * to the object store; the fewer have to, the fewer round trips.
 */
export const MAX_PAYLOAD_BYTES_DEFAULT = 8 * 1024 * 1024;

/** The file's text. It listens on 127.0.0.1 only: this server asks nobody who they are. */
export function serverConfigText(config: ServerConfig): string {
  return [
    "# Generated: changes are lost at the next start.",
    `server_name: ${quoted(config.serverName)}`,
    `listen: "127.0.0.1:${config.port}"`,
    `max_payload: ${config.maxPayloadBytes}`,
    "jetstream {",
    `  store_dir: ${quoted(config.storeDir)}`,
    ...(config.syncAlways ? ["  sync_interval: always"] : []),
    "}",
    config.extra ?? "",
    "",
  ].join("\n");
}

/** The server's strings know JSON's escapes for quotes and backslashes, all that a path needs. */
function quoted(text: string): string {
  return JSON.stringify(text);
}
