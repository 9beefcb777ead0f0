/**
 * The stored MCP servers of an agent: table `cf_agents_mcp_servers` in its own SQLite database
 * (`protocol.md` §9). Made with the first server, so an agent that has none has no table.
 *
 * The stored options of a server are declared here, and are plain data: no functions, no
 * validators.
 */
import type { SqlResult, SqlValue } from "../database/Databases.ts";
import { textOrNull } from "../database/nullable.ts";
import { finiteRetry, resolveRetry, type ResolvedRetry } from "../retry/retryPolicy.ts";
import type { RetryOptions } from "../retry/RetryOptions.ts";
import type { LogShape } from "../telemetry/Log.ts";
import { errorText } from "./errorText.ts";
import type { McpTransportType } from "./McpClients.ts";

export const MCP_TABLE = "cf_agents_mcp_servers";

export interface McpServerRow {
  readonly id: string;
  readonly name: string;
  readonly server_url: string;
  /** Empty: OAuth has nowhere to come back to. */
  readonly callback_url: string;
  readonly client_id: string | null;
  /** Where the user has to go; null unless an authorization is waited for. */
  readonly auth_url: string | null;
  /** JSON of `McpServerOptions`; null when there are none. */
  readonly server_options: string | null;
}

export interface McpServerOptions {
  readonly client?: {
    readonly name?: string;
    readonly version?: string;
    readonly capabilities?: Readonly<Record<string, unknown>>;
  };
  readonly transport?: {
    readonly type?: McpTransportType;
    readonly headers?: Readonly<Record<string, string>>;
    readonly skipIssuerMetadataValidation?: boolean;
  };
  readonly retry?: RetryOptions;
}

/** What the options leave open: a server that restarts is back within seconds. */
const WAKE_RETRY = { maxAttempts: 3, baseDelayMs: 500, maxDelayMs: 5000 };

const COLUMNS = "id, name, server_url, callback_url, client_id, auth_url, server_options";

type Query = (sql: string, params: ReadonlyArray<SqlValue>) => SqlResult;

export class McpServerTable {
  private made = false;

  constructor(private readonly query: Query) {}

  /** Requires that the table exists. */
  all(): ReadonlyArray<McpServerRow> {
    this.made = true;
    return this.query(`SELECT ${COLUMNS} FROM ${MCP_TABLE} ORDER BY rowid`, []).rows.map(toRow);
  }

  put(row: McpServerRow): void {
    this.make();
    this.query(
      `INSERT INTO ${MCP_TABLE} (${COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?)
       ON CONFLICT (id) DO UPDATE SET name = excluded.name, server_url = excluded.server_url,
         callback_url = excluded.callback_url, client_id = excluded.client_id,
         auth_url = excluded.auth_url, server_options = excluded.server_options`,
      [row.id, row.name, row.server_url, row.callback_url, row.client_id, row.auth_url, row.server_options], // prettier-ignore
    );
  }

  /** Writes only a change, because a write is an event. */
  setAuth(id: string, authUrl: string | null, clientId: string | null): void {
    this.make();
    this.query(
      `UPDATE ${MCP_TABLE} SET auth_url = ?1, client_id = ?2
       WHERE id = ?3 AND (auth_url IS NOT ?1 OR client_id IS NOT ?2)`,
      [authUrl, clientId, id],
    );
  }

  delete(id: string): void {
    this.make();
    this.query(`DELETE FROM ${MCP_TABLE} WHERE id = ?`, [id]);
  }

  private make(): void {
    if (this.made) return;
    this.query(
      `CREATE TABLE IF NOT EXISTS ${MCP_TABLE} (
         id TEXT PRIMARY KEY NOT NULL,
         name TEXT NOT NULL,
         server_url TEXT NOT NULL,
         callback_url TEXT NOT NULL,
         client_id TEXT,
         auth_url TEXT,
         server_options TEXT
       )`,
      [],
    );
    this.made = true;
  }
}

function toRow(values: ReadonlyArray<SqlValue>): McpServerRow {
  const [id, name, url, callback, client, auth, options] = values.map(textOrNull);
  return {
    id: id ?? "",
    name: name ?? "",
    server_url: url ?? "",
    callback_url: callback ?? "",
    client_id: client ?? null,
    auth_url: auth ?? null,
    server_options: options ?? null,
  };
}

/** The options of a stored row; none if they were edited and can't be read. */
export function readOptions({ server_options }: McpServerRow): McpServerOptions {
  try {
    const options = (JSON.parse(server_options ?? "{}") as McpServerOptions | null) ?? {};
    const { retry } = options;
    return retry === undefined ? options : { ...options, retry: finiteRetry(retry) };
  } catch {
    return {};
  }
}

/** How its connection is tried again. Stored options that are out of range are logged. */
export function readRetry(row: McpServerRow, log: LogShape): ResolvedRetry {
  try {
    return resolveRetry(WAKE_RETRY, readOptions(row).retry);
  } catch (error) {
    log.warn("an MCP server's stored retry options are invalid; the defaults are used", { server: row.id, error: errorText(error) }); // prettier-ignore
    return resolveRetry(WAKE_RETRY);
  }
}

/**
 * The declared subset, as JSON text; null when nothing of it is given. Throws `TypeError` for
 * invalid headers, and an `Error` that names the field for retry options that are out of range.
 */
export function storedOptions(given: {
  readonly client?: McpServerOptions["client"];
  readonly transport?: {
    readonly type?: McpTransportType;
    readonly headers?: HeadersInit;
    readonly skipIssuerMetadataValidation?: boolean;
  };
  readonly retry?: RetryOptions;
}): string | null {
  const { client, transport, retry } = given;
  resolveRetry(WAKE_RETRY, retry);
  const options: McpServerOptions = {
    ...(client === undefined ? {} : { client: pick(client, ["name", "version", "capabilities"]) }),
    ...(transport === undefined
      ? {}
      : {
          transport: {
            ...pick(transport, ["type", "skipIssuerMetadataValidation"]),
            ...(transport.headers === undefined
              ? {}
              : { headers: Object.fromEntries(new Headers(transport.headers)) }),
          },
        }),
    ...(retry === undefined
      ? {}
      : { retry: pick(finiteRetry(retry), ["maxAttempts", "baseDelayMs", "maxDelayMs"]) }),
  };
  return Object.keys(options).length === 0 ? null : JSON.stringify(options);
}

function pick<A extends object, K extends keyof A>(from: A, keys: ReadonlyArray<K>): Pick<A, K> {
  return Object.fromEntries(
    keys.filter((key) => from[key] !== undefined).map((key) => [key, from[key]]),
  ) as Pick<A, K>;
}
