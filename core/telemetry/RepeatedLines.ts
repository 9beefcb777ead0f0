/**
 * A log that writes once what many parts of a process say at the same time: while the broker is
 * away, each of 64 shards has the same to say, again at each attempt.
 *
 * 1. A line is written at once, unless one of its kind (level, message, and `why` or `error`) was
 *    written less than `WINDOW_MS` ago. Such lines are counted. At the end of the time the last of
 *    them is written, with `repeated`: how many there were.
 * 2. Warnings and errors of agents tell different agents apart, so `AGENT_LINES_MAX` of a class and
 *    message are written in that time. The rest are counted, whatever their errors say: a client
 *    that sends nothing but what its agent rejects does not fill the log.
 * 3. Lines of requests are written one by one: they have limits of their own (`RequestLog`). So are
 *    lines that give no reason.
 */
import { TEXT, type LogFields, type LogShape } from "./Log.ts";

/** Long enough for several attempts, and short beside what a person waits for. */
export const WINDOW_MS = 10_000;
/** Kinds under way. More of them are no repetition: they are written one by one. */
const KINDS_MAX = 100;

/** Rule 2. More than people read, and ten a second at most. */
export const AGENT_LINES_MAX = 100;

interface Kind {
  readonly level: keyof LogShape;
  readonly message: string;
  /** How many more lines are written in this window before they are counted. */
  room: number;
  repeated: number;
  last: LogFields;
}

interface RepeatedLines extends LogShape {
  /** Writes what was counted so far: the process ends. */
  readonly flush: () => void;
}

/** `later` calls `f` after so many milliseconds, if the process is still there. */
export function repeatedLines(
  log: LogShape,
  later: (ms: number, f: () => void) => void,
): RepeatedLines {
  const kinds = new Map<string, Kind>();
  const writeCounted = (kind: Kind): void => {
    if (kind.repeated === 0) return;
    log[kind.level](kind.message, { ...kind.last, repeated: kind.repeated });
    kind.repeated = 0;
  };
  const begin = (key: string, kind: Kind, lines: number): void => {
    kind.room = lines - 1;
    kinds.set(key, kind);
    later(WINDOW_MS, () => {
      if (kind.repeated === 0) return void kinds.delete(key);
      writeCounted(kind);
      begin(key, kind, lines);
    });
  };
  const at =
    (level: keyof LogShape): LogShape["info"] =>
    (message, fields = {}) => {
      const { reason, lines } = repetitionOf(level, fields);
      const key = `${level} ${message} ${reason ?? ""}`;
      const kind = reason === undefined ? undefined : kinds.get(key);
      if (kind !== undefined && kind.room === 0) {
        kind.repeated += 1;
        kind.last = fields;
        return;
      }
      log[level](message, fields);
      if (kind !== undefined) kind.room -= 1;
      else if (reason !== undefined && kinds.size < KINDS_MAX)
        begin(key, { level, message, room: 0, repeated: 0, last: fields }, lines);
    };
  return {
    debug: at("debug"),
    info: at("info"),
    warn: at("warn"),
    error: at("error"),
    flush: () => {
      for (const kind of kinds.values()) writeCounted(kind);
    },
  };
}

interface Repetition {
  /** What the kind's lines have in common. Undefined: the line is written by itself (rule 3). */
  readonly reason: string | undefined;
  /** How many of the kind are written in a window. */
  readonly lines: number;
}

function repetitionOf(level: keyof LogShape, fields: LogFields): Repetition {
  const { class: ofClass, error, why = error } = fields;
  if (fields[TEXT] !== undefined) return { reason: undefined, lines: 1 };
  if (ofClass === undefined) return { reason: typeof why === "string" ? why : undefined, lines: 1 };
  const isFailure = level === "warn" || level === "error";
  return { reason: isFailure ? `of ${String(ofClass)}` : undefined, lines: AGENT_LINES_MAX };
}
