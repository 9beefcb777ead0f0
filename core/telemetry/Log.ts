/**
 * The log port: one line an event, a message and fields. Processes provide one that writes JSON
 * lines or, on a terminal, text for people; tests provide one that collects. Plain functions for
 * the hot path.
 */
import * as Context from "effect/Context";

/** Key of the whole line for people: a log in text prints it alone, JSON leaves it out. */
export const TEXT: unique symbol = Symbol("text");

export interface LogFields {
  readonly [field: string]: unknown;
  /** Called only where the line is written. */
  readonly [TEXT]?: () => string;
}

/** A log: one line for each call, with a message and fields. Fields are written as JSON. */
export interface LogShape {
  /** For finding a cause. Not written by default. */
  readonly debug: (message: string, fields?: LogFields) => void;
  /** Something happened that an operator may want to know. */
  readonly info: (message: string, fields?: LogFields) => void;
  /** Something went wrong and was handled. */
  readonly warn: (message: string, fields?: LogFields) => void;
  /** Something failed and needs attention. */
  readonly error: (message: string, fields?: LogFields) => void;
}

/**
 * The fields without any of these names: a field that has one is called `field.<name>`, so that it
 * can't pass for the line's own.
 */
export function renameFields(fields: LogFields, names: ReadonlyArray<string>): LogFields {
  const taken = names.filter((name) => Object.hasOwn(fields, name));
  if (taken.length === 0) return fields;
  const renamed: Record<string | symbol, unknown> = { ...fields };
  for (const name of taken) {
    renamed[`field.${name}`] = renamed[name];
    Reflect.deleteProperty(renamed, name);
  }
  return renamed;
}

export class Log extends Context.Service<Log, LogShape>()("agents/core/log/Log") {}
