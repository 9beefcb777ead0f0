/**
 * The host's log with an agent's class and name in each line. Its four functions are made when they are asked for:
 * an agent in memory that logs nothing keeps none, and code that takes one apart (`const { info } = this.log`)
 * gets a function that works.
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
