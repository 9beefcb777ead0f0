/** Faults of network and broker for single messages in one run, drawn from its seed. */
import { Random } from "./Random.ts";
import type { Trace } from "./Trace.ts";
import type { PlantedBug } from "../planted/plantedBugs.ts";

export interface Rates {
  /** Messages that take any time at all. */
  readonly delayed: number;
  /** Requests and answers that are lost; their adapter gives up. */
  readonly lost: number;
  /** Appends whose outcome the host never learns. */
  readonly unknown: number;
  /** Deliveries and publishes that come twice. */
  readonly repeated: number;
  /** Acks and naks that are lost. */
  readonly ackLost: number;
  /** Clients' messages lost between gateway and host, but not their clients' others. */
  readonly messageLost: number;
}

export type Fate = "well" | "never" | "at once" | "later";

/** An append that nobody waits for lands at most so much later: past a lease and a take-over. */
const LATE_MS_MAX = 4_000;

export class Weather {
  readonly rates: Rates;
  readonly trace: Trace;
  readonly bug: PlantedBug | undefined;
  /** How often each fault bit. */
  readonly bites = new Map<string, number>();
  calm = false;
  private readonly random: Random;

  constructor(seed: number, parts: Pick<Weather, "rates" | "trace" | "bug">) {
    this.random = new Random(seed, "weather");
    this.rates = parts.rates;
    this.trace = parts.trace;
    this.bug = parts.bug;
  }

  bit(fault: string): void {
    this.bites.set(fault, (this.bites.get(fault) ?? 0) + 1);
  }

  fateOfAppend(): Fate {
    if (!this.strikes("unknown")) return "well";
    const fate = this.random.weighted({ never: 1, "at once": 2, later: 1 });
    this.bit(`append unknown: stored ${fate}`);
    return fate;
  }

  fateOfRequest(): "well" | "request lost" | "answer lost" {
    if (!this.strikes("lost")) return "well";
    const fate = this.random.weighted({ "request lost": 1, "answer lost": 1 });
    this.bit(fate);
    return fate;
  }

  isRepeated(): boolean {
    const repeated = this.strikes("repeated");
    if (repeated) this.bit("repeated");
    return repeated;
  }

  losesAck(): boolean {
    const lost = this.strikes("ackLost");
    if (lost) this.bit("ack lost");
    return lost;
  }

  losesMessage(): boolean {
    const lost = this.strikes("messageLost");
    if (lost) this.bit("message lost");
    return lost;
  }

  lateMs(): number {
    return this.random.int(1, LATE_MS_MAX);
  }

  private strikes(fault: keyof Rates): boolean {
    return !this.calm && this.rates[fault] > 0 && this.random.chance(this.rates[fault]);
  }
}
