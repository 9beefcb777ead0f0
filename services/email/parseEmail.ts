/**
 * Parses mail with `postal-mime`, which is loaded on first use.
 *
 * 1. Parsing holds the thread of all agents of a host, and anybody sends mail: what it costs is
 *    bounded. It costs by lines and parts: a mail of 3 MiB of empty lines took half a minute.
 * 2. The parser keeps each line of a text as two pieces of a `Blob`, which Node reads one by one.
 *    They are joined as they come; without that a line costs ten times as much.
 */
import type { Email } from "postal-mime";
import type { AgentEmail } from "../../core/mail/AgentEmail.ts";

/** Encoded lines of attachments are longer, and cheaper: those of base64 have 64 or 76 bytes. */
const FULL_LINE_BYTES = 60;
/** A log of 50 MiB has fewer. About a second of the thread. */
const SHORT_LINES_MAX = 1_000_000;
/** In all attached messages together, whose pieces can't be joined. About a second, too. */
const ATTACHED_SHORT_LINES_MAX = 100_000;
/** Each has a parser of its own. A digest has fewer. About half a second. */
const ATTACHED_MAX = 1_000;
/** Only those are checked. What is attached to an attached message is returned as it is. */
const ATTACHED_DEPTH_MAX = 1;
/** A part begins with such a line, and so do few lines of texts. About a second. */
const DASHED_LINES_MAX = 20_000;
/**
 * In the head of a message, or in those of all attached ones together. A list of addresses costs by
 * them: one of nothing but `a:` takes seven seconds for each MiB. About a second.
 */
const SEPARATORS_MAX = 100_000;
const SEPARATORS: ReadonlySet<number> = new Set(Buffer.from(",;:<("));
/** Few enough pieces for a `Blob`, and many enough to join them seldom. */
const PIECES_JOINED = 4_096;

const LF = 0x0a;
const CR = 0x0d;
const DASH = 0x2d;

/**
 * The parts of a message: text, html, attachments, decoded headers. A message that is not valid
 * MIME is returned as text. Rejects only for a hostile message: parts nested deeper than 256
 * levels, a head longer than 2 MiB, or more short lines, parts, attached messages or addresses than
 * people send. An `onEmail` that passes this error on sends the mail to the dead letters.
 */
export async function parseEmail(email: Pick<AgentEmail, "getRaw">): Promise<Email> {
  const { default: PostalMime } = await import("postal-mime");
  const raw = await email.getRaw();
  new MailBudget(SHORT_LINES_MAX).take(raw);
  const parser = new PostalMime({ maxRfc822NestingDepth: ATTACHED_DEPTH_MAX });
  bound(parser as unknown as Internals);
  return parser.parse(raw);
}

/** Rule 1: counts what is in all the messages that it takes. */
class MailBudget {
  private messages = 0;
  private short = 0;
  private dashed = 0;
  private separators = 0;

  constructor(private readonly shortMax: number) {}

  /** Throws an `Error` past a bound. */
  take(raw: Uint8Array): void {
    if (++this.messages > ATTACHED_MAX)
      throw new Error(`The mail has more than ${ATTACHED_MAX} attached messages`);
    let isHead = true;
    for (let at = 0; at < raw.length;) {
      const found = raw.indexOf(LF, at);
      const end = found === -1 ? raw.length : found;
      if (end - at < FULL_LINE_BYTES) this.short++;
      if (raw[at] === DASH && raw[at + 1] === DASH) this.dashed++;
      if (end === at || (raw[at] === CR && end === at + 1)) isHead = false;
      if (isHead) for (let i = at; i < end; i++) if (SEPARATORS.has(raw[i]!)) this.separators++;
      at = end + 1;
    }
    if (this.short > this.shortMax)
      throw new Error(`The mail has more than ${this.shortMax} short lines`);
    if (this.dashed > DASHED_LINES_MAX)
      throw new Error(`The mail has more than ${DASHED_LINES_MAX} lines that may begin a part`);
    if (this.separators > SEPARATORS_MAX)
      throw new Error(`The mail has more than ${SEPARATORS_MAX} separators of addresses`);
  }
}

/** What a parser has besides its declarations. One that a release lacks bounds nothing. */
interface Internals {
  processLine?: (line: Uint8Array, isFinal: boolean) => Promise<void>;
  collectSubMessage?: (node: { readonly content: ArrayBuffer | null }) => Promise<void>;
  readonly currentNode?: {
    readonly contentDecoder?: { readonly chunks?: unknown } | null | undefined;
  };
}

function bound(parser: Internals): void {
  const { processLine, collectSubMessage } = parser;
  const joined = new WeakMap<unknown[], number>();
  const attached = new MailBudget(ATTACHED_SHORT_LINES_MAX);
  if (processLine !== undefined)
    parser.processLine = (line, isFinal) => {
      const pieces = parser.currentNode?.contentDecoder?.chunks;
      if (Array.isArray(pieces)) join(pieces, joined);
      return processLine.call(parser, line, isFinal);
    };
  if (collectSubMessage !== undefined)
    parser.collectSubMessage = async (node) => {
      if (node.content !== null) attached.take(new Uint8Array(node.content));
      return collectSubMessage.call(parser, node);
    };
}

/** Rule 2. `joined`: how many pieces at the beginning are joined ones. */
function join(pieces: unknown[], joined: WeakMap<unknown[], number>): void {
  const from = joined.get(pieces) ?? 0;
  if (pieces.length - from < PIECES_JOINED) return;
  const taken = pieces.splice(from) as Array<string | ArrayBuffer | Uint8Array>;
  const bytes = taken.map((each) =>
    each instanceof Uint8Array ? each : Buffer.from(each as string),
  );
  pieces.push(Buffer.concat(bytes));
  joined.set(pieces, from + 1);
}
