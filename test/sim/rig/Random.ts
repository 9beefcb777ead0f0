/** The randomness of a simulation, from a seed: a stream for each part, which stay apart. */

/** Any odd multiplier does; this one is the golden ratio's, which spreads small seeds well. */
const SPREAD = 0x9e3779b1;

export class Random {
  private state: number;

  constructor(seed: number, stream = "") {
    let hash = Math.imul(seed ^ SPREAD, SPREAD);
    for (let i = 0; i < stream.length; i++)
      hash = Math.imul(hash ^ stream.charCodeAt(i), SPREAD) ^ (hash >>> 15);
    this.state = hash >>> 0;
  }

  /** Uniform in [0, 1): the mulberry32 generator. */
  readonly next = (): number => {
    this.state = (this.state + 0x6d2b79f5) >>> 0;
    let t = this.state;
    t = Math.imul(t ^ (t >>> 15), t | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };

  /** An integer of `[min, max]`. */
  int(min: number, max: number): number {
    return min + Math.floor(this.next() * (max - min + 1));
  }

  chance(probability: number): boolean {
    return this.next() < probability;
  }

  pick<A>(items: ReadonlyArray<A>): A {
    return items[Math.floor(this.next() * items.length)]!;
  }

  /** One of the keys, each as often as its weight says. */
  weighted<K extends string>(weights: Readonly<Partial<Record<K, number>>>): K {
    const entries = Object.entries(weights) as Array<[K, number]>;
    let left = this.next() * entries.reduce((sum, [, weight]) => sum + weight, 0);
    for (const [key, weight] of entries) {
      left -= weight;
      if (left < 0) return key;
    }
    return entries.at(-1)![0];
  }
}
