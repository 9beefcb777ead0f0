/**
 * The sockets of one gateway by the shard of their agent, in the order in which they were added.
 * `SocketTable` lists them in pages for a shard's new owner.
 *
 * 1. A place in the list is a number that no other socket ever has. Listing after a place therefore
 *    neither skips nor repeats a socket, whichever sockets were removed meanwhile.
 * 2. A page costs what it lists: the place is found by bisection.
 */
import { shardOf, type AgentId, type ShardId } from "../../schemas/Address.ts";

interface Placed {
  readonly id: AgentId;
  /** As `SocketsByShard.nextPlace` returned it. */
  readonly place: number;
}

interface ShardList<Socket> {
  readonly sockets: Map<number, Socket>;
  /** Ascending; also those of some removed sockets. */
  places: number[];
}

/** Removed sockets whose places are kept: fewer are not worth a new list. */
const STALE_PLACES_MIN = 64;

export class SocketsByShard<Socket extends Placed> {
  private readonly lists = new Map<ShardId, ShardList<Socket>>();
  private lastPlace = 0;

  constructor(private readonly shards: number) {}

  /** The place of the socket that is added next. */
  nextPlace(): number {
    return ++this.lastPlace;
  }

  add(socket: Socket): void {
    const shard = shardOf(socket.id, this.shards);
    let list = this.lists.get(shard);
    if (list === undefined) this.lists.set(shard, (list = { sockets: new Map(), places: [] }));
    list.sockets.set(socket.place, socket);
    list.places.push(socket.place);
  }

  /** Does nothing for a socket that was removed before. */
  remove({ id, place }: Socket): void {
    const shard = shardOf(id, this.shards);
    const list = this.lists.get(shard);
    if (list === undefined || !list.sockets.delete(place)) return;
    const { places, sockets } = list;
    if (sockets.size === 0) this.lists.delete(shard);
    else if (places.length > 2 * sockets.size + STALE_PLACES_MIN) list.places = [...sockets.keys()];
  }

  /** The shard's sockets after a place; 0: all. The table must not change meanwhile. */
  *after(shard: ShardId, place: number): Generator<Socket> {
    const list = this.lists.get(shard);
    if (list === undefined) return;
    const { places, sockets } = list;
    for (let i = indexAfter(places, place); i < places.length; i++) {
      const socket = sockets.get(places[i]!);
      if (socket !== undefined) yield socket;
    }
  }
}

/** Rule 2: the index of the first of these ascending numbers that is larger than `place`. */
function indexAfter(places: ReadonlyArray<number>, place: number): number {
  let [from, to] = [0, places.length];
  while (from < to) {
    const middle = (from + to) >>> 1;
    if (places[middle]! <= place) from = middle + 1;
    else to = middle;
  }
  return from;
}
