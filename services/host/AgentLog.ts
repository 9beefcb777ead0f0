/**
 * The host's log with an agent's class and name added to each line. Each of its four functions is
 * made when it is read: an agent in memory that logs nothing keeps none, and a function that user
 * code takes out (`const { info } = this.log`) works without its object.
 */
import type { AgentId } from "../../schemas/Address.ts";
import type { LogShape } from "../../core/telemetry/Log.ts";

export class AgentLog implements LogShape {
  readonly #log: LogShape;
  readonly #id: AgentId;

  constructor(log: LogShape, id: AgentId) {
    this.#log = log;
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
    return (message, fields) => this.#log[level](message, { ...this.#id, ...fields });
  }
}
