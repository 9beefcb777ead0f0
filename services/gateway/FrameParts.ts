/**
 * Puts messages of hosts together that came in parts, because they are larger than the broker's
 * payload limit. A host sends the parts of a message in one go and the broker keeps their order, so
 * a message is whole when its last part is here. Fed by `SocketTable`.
 */
import type { GatewayMessage } from "../../schemas/Call.ts";
import { joinBytes } from "../../schemas/joinBytes.ts";

/** Messages under way; a host sends one at a time, and one that died in the middle leaves its own. */
const UNFINISHED_MAX = 64;

export class FrameParts {
  private readonly unfinished = new Map<string, Uint8Array[]>();

  /** The whole message with its last part; undefined before. */
  take(head: GatewayMessage & { readonly op: "part" }, body: Uint8Array): Uint8Array | undefined {
    const parts = this.unfinished.get(head.id) ?? [];
    parts.push(body);
    if (!head.last) {
      this.unfinished.set(head.id, parts);
      const [oldest] = this.unfinished.keys();
      if (this.unfinished.size > UNFINISHED_MAX) this.unfinished.delete(oldest!);
      return undefined;
    }
    this.unfinished.delete(head.id);
    return joinBytes(parts);
  }
}
