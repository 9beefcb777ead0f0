/**
 * The host's log with an agent's class and name added to each line, and what the running turn is
 * for: the input's kind, key and attempt, its delivery and its trace. Each of its four functions is
 * made when it is read: an agent in memory that logs nothing keeps none, and a function that user
 * code takes out (`const { info } = this.log`) works without its object.
 *
 * If an input fails several times with the same error, the error's stack is logged once.
 */
import type { AgentId } from "../../schemas/Address.ts";
import { stackOf } from "../../core/errors/thrown.ts";
import { renameFields, type LogFields, type LogShape } from "../../core/telemetry/Log.ts";
import { REDACTED } from "../../core/redaction/FieldRedaction.ts";
import { turnFields } from "../../core/turn/turnFields.ts";
import type { Turn } from "../../core/turn/Turn.ts";
import type { HostServices } from "./HostServices.ts";

type Services = Pick<HostServices, "log" | "ambient">;

const NODE_FRAME = /\n {4}at [^\n]*\bnode:[^\n]*/g;

export class AgentLog implements LogShape {
  readonly #services: Services;
  readonly #id: AgentId;
  /** The last error with a stack, after the key of the input, without Node's own frames. */
  #lastError: string | undefined;

  constructor(services: Services, id: AgentId) {
    this.#services = services;
    this.#id = id;
  }

  get debug(): LogShape["debug"] {
    return this.#of("debug");
  }
  get info(): LogShape["info"] {
    return this.#of("info");
  }
  get warn(): LogShape["warn"] {
    return this.#of("warn");
  }
  get error(): LogShape["error"] {
    return this.#of("error");
  }

  #of(level: keyof LogShape): LogShape["info"] {
    const { log, ambient } = this.#services;
    return (message, given) => {
      const turn = ambient.current();
      const fields = renameFields(fieldsOf(given), OWN);
      const own = concealed(turn, this.#withoutStackAgain(turn, fields));
      const text = turn === undefined ? message : turn.conceal(message);
      log[level](text, { ...this.#id, ...(turn && turnFields(turn)), ...own });
    };
  }

  #withoutStackAgain(turn: Turn | undefined, fields: LogFields): LogFields {
    const { error } = fields;
    if (turn === undefined || typeof error !== "string" || !error.includes("\n    at "))
      return fields;
    const { id = "", attempt = 1 } = turn.cause;
    // Node's frames depend on what the event loop was doing.
    const same = id + error.replaceAll(NODE_FRAME, "");
    const isRepeated = attempt > 1 && this.#lastError === same;
    this.#lastError = same;
    if (!isRepeated) return fields;
    const [first] = error.split("\n    at ", 1);
    return { ...fields, error: first, stack: "as in the previous attempt" };
  }
}

/** The fields by which a line is known to be the agent's. */
const OWN = ["class", "name"];

/** An error that JavaScript code passes in place of fields is logged as its stack. */
function fieldsOf(given: unknown): LogFields {
  if (given === undefined) return {};
  if (given instanceof Error) return { error: stackOf(given) };
  return typeof given === "object" && given !== null ? (given as LogFields) : { value: given };
}

/** The fields without what the turn's input hides. */
function concealed(turn: Turn | undefined, fields: LogFields): LogFields {
  if (turn?.hides !== true) return fields;
  const shown = Object.entries(fields).map(([name, value]) => [name, concealedValue(turn, value)]);
  return Object.fromEntries(shown) as LogFields;
}

function concealedValue(turn: Turn, value: unknown): unknown {
  if (typeof value === "string") return turn.conceal(value);
  try {
    return value === undefined ? value : JSON.parse(turn.conceal(JSON.stringify(value)));
  } catch {
    // It is not JSON, or would not be without the hidden values: none of it is shown.
    return REDACTED;
  }
}
