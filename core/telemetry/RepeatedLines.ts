/**
 * A log that writes once what many parts of a process say at the same time: while the broker is
 * away, each of 64 shards has the same to say, again at each attempt.
 *
 * 1. A line is written at once, unless one of its kind (level, message, and `why` or `error`) was
 *    written less than `WINDOW_MS` ago. Such lines are counted. At the end of the time the last of
 *    them is written, with `repeated`: how many there were.
 * 2. Lines of agents and requests are written one by one: they have limits of their own
 *    (`RequestLog`). So are lines that give no reason.
 */
import { TEXT, type LogFields, type LogShape } from "./Log.ts";

/** Long enough for several attempts, and short beside what a person waits for. */
export const WINDOW_MS = 10_000;
/** Kinds under way. More of them are no repetition: they are written one by one. */
const KINDS_MAX = 100;

interface Kind {
  readonly level: keyof LogShape;
  readonly message: string;
  repeated: number;
  last: LogFields;
}

export interface RepeatedLines extends LogShape {
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
  const begin = (key: string, kind: Kind): void => {
    kinds.set(key, kind);
    later(WINDOW_MS, () => {
      if (kind.repeated === 0) return void kinds.delete(key);
      writeCounted(kind);
      begin(key, kind);
    });
  };
  const at =
    (level: keyof LogShape): LogShape["info"] =>
    (message, fields = {}) => {
      const reason = reasonOf(fields);
      const key = `${level} ${message} ${reason ?? ""}`;
      const kind = reason === undefined ? undefined : kinds.get(key);
      if (kind !== undefined) {
        kind.repeated += 1;
        kind.last = fields;
        return;
      }
      log[level](message, fields);
      if (reason !== undefined && kinds.size < KINDS_MAX)
        begin(key, { level, message, repeated: 0, last: fields });
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

/** Undefined: the line is written by itself (2). */
function reasonOf(fields: LogFields): string | undefined {
  if (fields["class"] !== undefined || fields[TEXT] !== undefined) return undefined;
  const reason = fields["why"] ?? fields["error"];
  return typeof reason === "string" ? reason : undefined;
}
