/**
 * The ports of a traced host: each decorates a plain port, and records a span for what the port
 * does. A process without tracing uses the plain ports, at no cost.
 *
 * 1. A turn's span begins with its code and ends with it. It continues the trace of what caused the
 *    turn: an input's or a call's `traceparent`, or, for a job, the turn that made it
 *    (`JobTraces`).
 * 2. The turn's cause gets the span's `traceparent` before anything of the turn is journaled, so
 *    the event has it.
 * 3. SQL, appends to the journal, inputs that the turn stores and requests that it sends are
 *    children of its span. At most `STATEMENTS_MAX` statements of a turn have one.
 * 4. What is hidden of a turn's input (`Turn.conceal`) is in no text of its span's children.
 */
import { AsyncLocalStorage } from "node:async_hooks";
import type { AgentDatabase, DatabasesShape } from "../../core/database/Databases.ts";
import type { InboxShape } from "../../core/inbox/Inbox.ts";
import type { JournalShape } from "../../core/journal/Journal.ts";
import type { OutgoingShape } from "../../core/outgoing/Outgoing.ts";
import { ActiveAgent } from "../../core/runtime/ActiveAgent.ts";
import type { Span, SpanAttributes, TracingShape } from "../../core/telemetry/Tracing.ts";
import type { AmbientShape } from "../../core/turn/Ambient.ts";
import type { Turn } from "../../core/turn/Turn.ts";
import { addressKey } from "../../schemas/Address.ts";
import { decodeEnvelope, encodeEnvelope } from "../../schemas/InboxEnvelope.ts";
import { decodeEvent } from "../../schemas/JournalEvent.ts";
import { JobTraces } from "./JobTraces.ts";

/** Rule 3: the spans of a loop of inserts would all be alike. */
const STATEMENTS_MAX = 100;

interface Traced {
  readonly span: Span;
  statements: number;
}

export class TracedPorts {
  private readonly turns = new WeakMap<Turn, Traced>();
  private readonly callers = new AsyncLocalStorage<string>();
  private readonly jobs = new JobTraces();

  constructor(
    private readonly tracing: TracingShape,
    private readonly plain: AmbientShape,
  ) {}

  /** The `traceparent` of the running turn's span. */
  current(): string | undefined {
    return this.plain.current()?.cause.traceparent;
  }

  /** Rules 1 and 2. */
  get ambient(): AmbientShape {
    return {
      current: this.plain.current,
      continuing: (traceparent, f) => this.callers.run(traceparent, f),
      run: (turn, f) => {
        if (this.turns.has(turn)) return this.plain.run(turn, f);
        const span = this.begin(turn);
        const endsWith = (error?: unknown): void => span.end(turn.concealError(error));
        try {
          const result = this.plain.run(turn, () => span.run(f));
          if (result instanceof Promise) result.then(() => endsWith(), endsWith);
          else endsWith();
          return result;
        } catch (error) {
          endsWith(error);
          throw error;
        }
      },
    };
  }

  private begin(turn: Turn): Span {
    const { cause, owner } = turn;
    const agent = owner instanceof ActiveAgent ? owner.id : undefined;
    const parent =
      cause.traceparent ?? (cause.id && this.jobs.of(cause.id)) ?? this.callers.getStore();
    const span = this.tracing.start(
      [agent?.class ?? "agent", cause.kind, ...(cause.type === undefined ? [] : [cause.type])].join(
        " ",
      ),
      {
        kind: turn.durable ? "consumer" : "server",
        parent,
        attributes: {
          "agents.turn": cause.kind,
          ...(agent !== undefined && { "agents.class": agent.class, "agents.name": agent.name }),
          ...(cause.id !== undefined && { "messaging.message.id": cause.id }),
          ...(cause.delivery !== undefined && { "agents.delivery": cause.delivery }),
          ...(cause.attempt !== undefined && { "agents.attempt": cause.attempt }),
          ...(turn.durable && {
            "messaging.system": "nats",
            "messaging.operation.type": "process",
          }),
        },
      },
    );
    this.turns.set(turn, { span, statements: 0 });
    turn.cause = { ...cause, traceparent: span.traceparent };
    return span;
  }

  /** A client span of what the running turn does. Without a turn it begins a trace. Rule 4. */
  child(name: string, attributes: SpanAttributes): Span {
    const turn = this.plain.current();
    const options = { kind: "client", parent: turn?.cause.traceparent } as const;
    if (turn === undefined || !turn.hides)
      return this.tracing.start(name, { ...options, attributes });
    const shown = (all: SpanAttributes): SpanAttributes =>
      Object.fromEntries(
        Object.entries(all).map(([key, value]) => [
          key,
          typeof value === "string" ? turn.conceal(value) : value,
        ]),
      );
    const span = this.tracing.start(turn.conceal(name), {
      ...options,
      attributes: shown(attributes),
    });
    return {
      ...span,
      set: (more) => span.set(shown(more)),
      end: (error) => span.end(turn.concealError(error)),
    };
  }

  journal(plain: JournalShape): JournalShape {
    return {
      ...plain,
      append: async (id, data, options) => {
        const { head } = decodeEvent(data);
        const parent = head.turns.find(({ cause }) => cause.traceparent !== undefined)?.cause
          .traceparent;
        if (parent === undefined) return plain.append(id, data, options);
        this.jobs.made(addressKey(id), head, parent);
        const span = this.tracing.start("journal append", {
          kind: "producer",
          parent,
          attributes: {
            "messaging.system": "nats",
            "messaging.operation.type": "send",
            "messaging.message.body.size": data.length,
            "agents.turns": head.turns.length,
          },
        });
        const result = await plain.append(id, data, options);
        if (result._tag === "Stored") span.set({ "agents.seq": result.seq });
        span.end(result._tag === "Stored" ? undefined : `the event was not stored: ${result._tag}`);
        return result;
      },
    };
  }

  databases(plain: DatabasesShape): DatabasesShape {
    return {
      ...plain,
      open: (id) => {
        const opened = plain.open(id);
        return { ...opened, database: this.database(opened.database) };
      },
    };
  }

  /** The database with a traced `query`. All other members are the plain database's. */
  private database(plain: AgentDatabase): AgentDatabase {
    return new Proxy(plain, {
      get: (target, name) => {
        if (name === "query") return this.query(target);
        const value: unknown = Reflect.get(target, name, target);
        return typeof value === "function" ? value.bind(target) : value;
      },
      set: (target, name, value) => Reflect.set(target, name, value, target),
    });
  }

  private query(database: AgentDatabase): AgentDatabase["query"] {
    return (sql, params) => {
      const turn = this.plain.current();
      const traced = turn && this.turns.get(turn);
      if (traced === undefined || ++traced.statements > STATEMENTS_MAX)
        return database.query(sql, params);
      const operation = /^\s*(\w+)/.exec(sql)?.[1]?.toUpperCase() ?? "SQL";
      const span = this.child(operation, {
        "db.system.name": "sqlite",
        "db.operation.name": operation,
        // The text has placeholders, not values. Where code has put a hidden value into it, the
        // value is looked for before the text is cut.
        "db.query.text": turn!.conceal(sql).slice(0, QUERY_TEXT_MAX),
      });
      try {
        const result = database.query(sql, params);
        span.end();
        return result;
      } catch (error) {
        span.end(error);
        throw error;
      }
    };
  }

  /** Inputs that a turn causes, such as signals of workflows, continue its trace. */
  inbox(plain: InboxShape): InboxShape {
    return {
      ...plain,
      publish: (id, data, options) => {
        const { head, body } = decodeEnvelope(data);
        if (head.kind === "queue") this.jobs.triggered(addressKey(id), head.key);
        const traceparent = this.current();
        if (traceparent === undefined) return plain.publish(id, data, options);
        return head.traceparent === undefined
          ? plain.publish(id, encodeEnvelope({ ...head, traceparent }, body), options)
          : plain.publish(id, data, options);
      },
    };
  }

  outgoing(plain: OutgoingShape): OutgoingShape {
    return {
      ...plain,
      post: async (request) => {
        const span = this.child("POST", httpAttributes("POST", request.url));
        const headers = { ...request.headers, traceparent: span.traceparent };
        const result = await plain.post({ ...request, headers });
        if (result._tag === "Answered") {
          span.set({ "http.response.status_code": result.status });
          span.end(result.status >= 400 ? `status ${result.status}` : undefined);
        } else span.end(result.message);
        return result;
      },
    };
  }

  /** The `fetch` of agent code. A `traceparent` that the code sets itself stays. */
  fetch(plain: typeof fetch): typeof fetch {
    return async (input, init) => {
      if (this.current() === undefined) return plain(input, init);
      const request = new Request(input, init);
      const span = this.child(request.method, httpAttributes(request.method, request.url));
      if (!request.headers.has("traceparent")) request.headers.set("traceparent", span.traceparent);
      try {
        const response = await plain(request);
        span.set({ "http.response.status_code": response.status });
        span.end(response.status >= 400 ? `status ${response.status}` : undefined);
        return response;
      } catch (error) {
        span.end(error);
        throw error;
      }
    };
  }
}

/** Enough to recognise a statement. */
const QUERY_TEXT_MAX = 2_000;

/** Without the query, which may contain secrets. */
function httpAttributes(method: string, href: string) {
  const url = new URL(href);
  return {
    "http.request.method": method,
    "url.full": url.origin + url.pathname,
    "server.address": url.hostname,
  };
}
