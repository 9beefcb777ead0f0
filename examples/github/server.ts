/**
 * One agent per GitHub repository: it records the repository's webhooks, counts them, and shows
 * them live. Start it with `npm start`, open the page, paste the curl that is printed.
 *
 * RepoAgent takes signed webhooks, so nothing else reaches it over HTTP, and pages look without
 * changing anything.
 *
 * For real webhooks set GITHUB_WEBHOOK_SECRET (in the environment or in a .env file here) to the
 * secret that you gave GitHub, and let it call POST /webhooks/github.
 */
import { readFileSync } from "node:fs";
import { Agent, callable, type FetchContext } from "agents";
import { body, escapedSlug, github, webhook } from "agents/webhooks";
import { summarise, type Summary } from "./summarise.ts";

/** The data that pages show: every client receives it on connect and after every change. */
export interface RepoState {
  readonly repository: string;
  readonly total: number;
  readonly counts: Readonly<Record<string, number>>;
  readonly lastEvent: RecordedEvent | null;
}

/** A row of `events`, without its payload. */
export interface RecordedEvent extends Omit<Summary, "repository"> {
  readonly id: string;
  readonly type: string;
  /** ISO 8601, when it was recorded. */
  readonly timestamp: string;
}

/** Number of kept rows: enough to look back on, few enough to stay fast. */
const EVENTS_KEPT = 100;
const LIST_LIMIT_DEFAULT = 20; // what a page shows without scrolling far

export class RepoAgent extends Agent<Record<string, unknown>, RepoState> {
  override initialState: RepoState = {
    repository: this.name,
    total: 0,
    counts: {},
    lastEvent: null,
  };

  override onStart(): void {
    this.sql`CREATE TABLE IF NOT EXISTS events (
      id TEXT PRIMARY KEY,
      type TEXT NOT NULL,
      action TEXT,
      title TEXT NOT NULL,
      description TEXT,
      url TEXT,
      actor TEXT,
      payload TEXT,
      timestamp TEXT NOT NULL
    )`;
    this.sql`CREATE INDEX IF NOT EXISTS events_by_time ON events (timestamp DESC)`;
  }

  /** A webhook: verified, and applied once. */
  override async onRequest(request: Request): Promise<Response> {
    const id = request.headers.get("x-github-delivery");
    const type = request.headers.get("x-github-event");
    if (id === null || type === null) return new Response("Missing event", { status: 400 });
    const text = payloadOf(await request.text());
    let payload: unknown;
    try {
      payload = JSON.parse(text);
    } catch {
      return new Response("Invalid", { status: 400 });
    }
    this.record({ id, type, text, summary: summarise(type, payload) });
    return new Response("OK");
  }

  /** The latest events, newest first. */
  @callable()
  listEvents(limit: number = LIST_LIMIT_DEFAULT, type?: string): RecordedEvent[] {
    const rows = Math.max(1, Math.min(Math.trunc(limit) || LIST_LIMIT_DEFAULT, EVENTS_KEPT));
    return this.sql<RecordedEvent>`
      SELECT id, type, action, title, description, url, actor, timestamp FROM events
      WHERE ${type ?? null} IS NULL OR type = ${type ?? null}
      ORDER BY timestamp DESC, rowid DESC LIMIT ${rows}`;
  }

  private record(given: { id: string; type: string; text: string; summary: Summary }): void {
    const { id, type, text, summary } = given;
    // The gateway drops redeliveries for seven days; the table detects them as long as it keeps the
    // row.
    if (this.sql`SELECT 1 FROM events WHERE id = ${id}`.length > 0) return;
    const { repository, ...about } = summary;
    const event: RecordedEvent = { id, type, ...about, timestamp: new Date().toISOString() };
    const { action, title, description, url, actor, timestamp } = event;
    this
      .sql`INSERT INTO events (id, type, action, title, description, url, actor, payload, timestamp)
      VALUES (${id}, ${type}, ${action}, ${title}, ${description}, ${url}, ${actor}, ${text}, ${timestamp})`;
    this.sql`DELETE FROM events WHERE rowid NOT IN (
      SELECT rowid FROM events ORDER BY timestamp DESC, rowid DESC LIMIT ${EVENTS_KEPT})`;
    const { total, counts } = this.state;
    this.setState({
      repository: repository ?? this.state.repository,
      total: total + 1,
      counts: { ...counts, [type]: (Object.hasOwn(counts, type) ? counts[type]! : 0) + 1 },
      lastEvent: event,
    });
  }
}

/**
 * GitHub sends a form with the JSON in it, unless the webhook's content type is set to JSON. The
 * body says which of them it is, because GitHub signs the body and not the content type.
 */
const payloadOf = (text: string): string =>
  text.startsWith("payload=") ? (new URLSearchParams(text).get("payload") ?? "") : text;

const PAGE = readFileSync(new URL("./page.html", import.meta.url), "utf8");

export default {
  webhooks: [
    webhook("/webhooks/github", {
      agent: RepoAgent,
      verify: github({ secret: "GITHUB_WEBHOOK_SECRET" }),
      entity: body("repository.full_name", escapedSlug),
    }),
  ],

  async fetch(request: Request, _env: unknown, gateway: FetchContext): Promise<Response> {
    const { pathname } = new URL(request.url);
    if (pathname === "/" && request.method === "GET")
      return new Response(PAGE, {
        headers: {
          "content-type": "text/html; charset=utf-8",
          "content-security-policy":
            "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self' ws: wss:; img-src data:; base-uri 'none'; form-action 'self'",
        },
      });
    const routed = await gateway.routeAgentRequest(request);
    return routed ?? new Response("Not found", { status: 404 });
  },
};
