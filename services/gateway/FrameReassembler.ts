/**
 * Reassembles messages of hosts that are larger than the broker's payload limit and therefore
 * arrive in parts. A host sends the parts of a message without a pause and the broker keeps their
 * order, so a message is complete when its last part arrives. Used by `SocketTable`.
 */
import type { GatewayMessage } from "../../schemas/bus/GatewayMessage.ts";
import { joinBytes } from "../../schemas/joinBytes.ts";

/** The most incomplete messages. Each host sends one at a time, and a dead host leaves one. */
const INCOMPLETE_MAX = 64;

export class FrameReassembler {
  private readonly incomplete = new Map<string, Uint8Array[]>();

  /** Returns the whole message for its last part, else undefined. */
  add(head: GatewayMessage & { readonly op: "part" }, body: Uint8Array): Uint8Array | undefined {
    const parts = this.incomplete.get(head.id) ?? [];
    parts.push(body);
    if (!head.last) {
      this.incomplete.set(head.id, parts);
      const [oldest] = this.incomplete.keys();
      if (this.incomplete.size > INCOMPLETE_MAX) this.incomplete.delete(oldest!);
      return undefined;
    }
    this.incomplete.delete(head.id);
    return joinBytes(parts);
  }
}
