/**
 * Counts the bytes of the messages that a listener is receiving, over all connections and for each
 * peer: one peer gets half of the room at most, so that it can't keep out the mail of others. Fed
 * by `SmtpListener`.
 */
export class BytesInFlight {
  private total = 0;
  private readonly ofPeers = new Map<string, number>();
  private readonly perPeerMax: number;

  /** A peer may always send one of the largest messages. */
  constructor(
    private readonly max: number,
    messageBytesMax: number,
  ) {
    this.perPeerMax = Math.max(messageBytesMax, max / 2);
  }

  /** Whether there is room for more bytes of the peer. */
  hasRoom(peer: string, bytes: number): boolean {
    return this.total + bytes <= this.max && this.of(peer) + bytes <= this.perPeerMax;
  }

  /** Adds bytes of the peer; a negative number releases some. */
  add(peer: string, bytes: number): void {
    this.total += bytes;
    const left = this.of(peer) + bytes;
    if (left > 0) this.ofPeers.set(peer, left);
    else this.ofPeers.delete(peer);
  }

  private of(peer: string): number {
    return this.ofPeers.get(peer) ?? 0;
  }
}
