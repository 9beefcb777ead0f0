/**
 * What is under way, in the order in which it began; each leaves whenever it is over, by its link.
 *
 * A hot path, and not a `Set` or `Map`: V8 allocates a new table for those every few entries that
 * come and go, and the old table points to the new. Once one table has grown old, the collector of
 * young objects keeps every later one, and all that was in it, until the next full collection: each
 * request of a server, though it was answered long ago, was copied twice
 * (`docs/evidence/performance.md`, "What a `Map` that fills and empties costs"). A link that has
 * left holds nothing.
 */
export class LinkedList<A> {
  private head: Link<A> | undefined;
  private tail: Link<A> | undefined;

  /** The one that began first, of those that are here. */
  get first(): A | undefined {
    return this.head?.value;
  }

  add(value: A): Link<A> {
    const link = new Link(this, value, this.tail);
    if (this.tail === undefined) this.head = link;
    else this.tail.after = link;
    this.tail = link;
    return link;
  }

  /** Takes the first out. */
  shift(): A | undefined {
    const value = this.head?.value;
    this.head?.leave();
    return value;
  }

  /** Takes out one after the other, until there is none: those too that are added meanwhile. */
  *drain(): Generator<A, void> {
    for (let next = this.shift(); next !== undefined; next = this.shift()) yield next;
  }

  /** Called by `Link.leave`. */
  unlink(link: Link<A>): void {
    const { before, after } = link;
    if (before === undefined) this.head = after;
    else before.after = after;
    if (after === undefined) this.tail = before;
    else after.before = before;
  }
}

export class Link<A> {
  /** Undefined once it has left. */
  value: A | undefined;
  before: Link<A> | undefined;
  after: Link<A> | undefined = undefined;
  private list: LinkedList<A> | undefined;

  constructor(list: LinkedList<A>, value: A, before: Link<A> | undefined) {
    this.list = list;
    this.value = value;
    this.before = before;
  }

  /** Returns false, and does nothing, once it has left. */
  leave(): boolean {
    if (this.list === undefined) return false;
    this.list.unlink(this);
    this.list = undefined;
    this.value = undefined;
    this.before = undefined;
    this.after = undefined;
    return true;
  }
}
