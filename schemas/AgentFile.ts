/**
 * One agent as a file of JSON lines, which `agents export` writes and `agents import` reads:
 *
 *     {"format":"agents.agent","v":1,"formats":…,"class":…,"name":…,"time":when it was written, ISO 8601}
 *     {"seq":…,"stored":milliseconds since the epoch,"event":"the journal event's frame, base64"}   … one a line, oldest first
 *     {"end":true,"events":how many}
 *
 * An event's frame is whole: content of the blob store is in the line. The last line proves that
 * the file is complete; each frame's checksum proves that its event is. A reader refuses another
 * `v`, and later `formats` (`StoredFormats`).
 */
import { agentId, InvalidAddress, type AgentId } from "./Address.ts";
import { fromBase64, toBase64 } from "./base64.ts";
import { CorruptFrame, UnknownVersion } from "./Frame.ts";
import { jsonObject } from "./jsonObject.ts";
import { refuseNewerFormats, STORED_FORMATS } from "./StoredFormats.ts";

const FORMAT = "agents.agent";
const AGENT_FILE_VERSION = 1;

export interface AgentFileEvent {
  /** Sequence in the exported journal. Increases from line to line. */
  readonly seq: number;
  readonly storedMs: number;
  readonly data: Uint8Array;
}

export const agentFileHead = (id: AgentId, timeMs: number): string =>
  JSON.stringify({
    format: FORMAT,
    v: AGENT_FILE_VERSION,
    formats: STORED_FORMATS,
    class: id.class,
    name: id.name,
    time: new Date(timeMs).toISOString(),
  });

export const agentFileEvent = ({ seq, storedMs, data }: AgentFileEvent): string =>
  JSON.stringify({ seq, stored: storedMs, event: toBase64(data) });

export const agentFileEnd = (events: number): string => JSON.stringify({ end: true, events });

/** The agent that the first line names. Throws `CorruptFrame` or `UnknownVersion`. */
export function readAgentFileHead(line: string): AgentId {
  const head = jsonObject(line, "line 1 is not a line of JSON");
  if (head["format"] !== FORMAT)
    throw new CorruptFrame({ message: 'the first line is not that of a file of "agents export"' });
  const { v, class: className, name } = head;
  refuseNewerFormats("the file", head["formats"]);
  const version = typeof v === "number" ? v : NaN;
  if (version !== AGENT_FILE_VERSION)
    throw new UnknownVersion({
      version,
      message: `the file is of version ${version}; this release reads ${AGENT_FILE_VERSION}`,
    });
  try {
    // A value that is not text becomes an invalid address.
    return agentId(
      typeof className === "string" ? className : "",
      typeof name === "string" ? name : "",
    );
  } catch (error) {
    if (error instanceof InvalidAddress) throw new CorruptFrame({ message: error.message });
    throw error;
  }
}

/** Reads the lines after the first, in order. Throws `CorruptFrame` for a damaged line. */
export class AgentFileReader {
  private line = 1;
  private events = 0;
  private seq = 0;
  private ended = false;

  /** The event of a line; undefined for the last line. */
  read(text: string): AgentFileEvent | undefined {
    this.line++;
    if (this.ended) throw this.corrupt("follows the last one");
    const found = jsonObject(text, `line ${this.line} is not a line of JSON`);
    if (found["end"] === true) {
      if (found["events"] !== this.events)
        throw this.corrupt(`says ${String(found["events"])} events, and there are ${this.events}`);
      this.ended = true;
      return undefined;
    }
    const { seq, stored, event } = found;
    if (typeof seq !== "number" || typeof stored !== "number" || typeof event !== "string")
      throw this.corrupt("is no event");
    if (seq <= this.seq) throw this.corrupt(`is event ${seq}, after event ${this.seq}`);
    this.seq = seq;
    this.events++;
    return { seq, storedMs: stored, data: fromBase64(event) };
  }

  /** Call it after the last line. Throws `CorruptFrame` when the end is missing. */
  finish(): void {
    if (!this.ended)
      throw new CorruptFrame({ message: `the file is cut off after line ${this.line}` });
  }

  private corrupt(what: string): CorruptFrame {
    return new CorruptFrame({ message: `line ${this.line} ${what}` });
  }
}
