/** Cuts what a nats-server sends into whole frames, which a link can delay or repeat. */

/** The line of a message: `MSG <subject> <sid> [reply] <bytes>`; `HMSG … <bytes> <bytes>`. */
const MESSAGE = /^H?MSG /;
const LINE_END = "\r\n";
/** An inbox's message by pull consumer: only these may a broker send twice, or late. */
const INBOX_ACK = /^\$JS\.ACK\.(?:[^.]+\.[^.]+\.)?[^.]*_INBOX(?:_\d+)?\./;

export interface Frame {
  readonly bytes: Buffer;
  /** A durable input's delivery. */
  readonly isDelivery: boolean;
}

export class Frames {
  private rest: Buffer = Buffer.alloc(0);

  /** The frames that are complete with these bytes. */
  take(bytes: Buffer): Frame[] {
    this.rest = this.rest.length === 0 ? bytes : Buffer.concat([this.rest, bytes]);
    const frames: Frame[] = [];
    for (;;) {
      const lineEnd = this.rest.indexOf(LINE_END);
      if (lineEnd < 0) return frames;
      const line = this.rest.toString("latin1", 0, lineEnd);
      const isMessage = MESSAGE.test(line);
      const payload = isMessage ? Number(line.slice(line.lastIndexOf(" ") + 1)) + LINE_END.length : 0; // prettier-ignore
      const end = lineEnd + LINE_END.length + payload;
      if (this.rest.length < end) return frames;
      frames.push({ bytes: this.rest.subarray(0, end), isDelivery: isMessage && isDelivery(line) });
      this.rest = this.rest.subarray(end);
    }
  }
}

/** Whether the line's reply, the fourth word of those that have one, acknowledges an input. */
const isDelivery = (line: string): boolean => INBOX_ACK.test(line.split(" ")[3] ?? "");
