/** What was observed of one run from outside and by agents' code, to compare with journals. */

import { addressKey, type AgentId } from "../../../schemas/Address.ts";
import type { StoredEvent } from "../../../core/journal/Journal.ts";
import type { ControlAction } from "../../../core/workflow/WorkflowCalls.ts";

/** One distinct webhook as its sender knows it. */
export interface SentWebhook {
  readonly id: string;
  readonly agent: string;
  readonly op: string;
  /** The status of every answer that it got; 0 stands for none. */
  readonly statuses: number[];
  /** Answered with the agent's own word, not with 202. */
  applied: boolean;
}

/** One time that agents' code began to run for an input or a job. */
export interface Run {
  readonly agent: string;
  readonly key: string;
  readonly kind: string;
  readonly attempt: number;
  readonly host: string;
  readonly op: string;
  /** By the broker's clock. */
  readonly atMs: number;
  /** By the host's own clock: the latest that it may have gone by. */
  readonly wallMs: number;
}

/** One time that the watchdog of a machine ended a process. */
export interface Stopped {
  readonly machine: string;
  readonly host: string;
  readonly name: string;
  readonly key: string;
  readonly attempt: number;
  /** True if the worker died, in which others run; false if only this agent's process did. */
  readonly isWorker: boolean;
  readonly atMs: number;
}

/** One time that an instance of a workflow said that it did as it was told. */
export interface Controlled {
  readonly errand: string;
  readonly action: ControlAction;
  readonly atMs: number;
}

/** One outgoing webhook that arrived somewhere. */
export interface Post {
  readonly idempotencyKey: string;
  /** The input whose turn asked for it. */
  readonly input: string;
  readonly atMs: number;
}

/** One mail as those who wrote it know it. */
export interface MailIn {
  readonly agent: string;
  readonly answers: string[];
}

/** One mail that a relay got, as often as it did. */
export interface MailOut {
  /** Message-ID. */
  readonly id: string;
  /** Id of the mail that it answers. */
  readonly text: string;
  readonly atMs: number;
}

export interface StateFrame {
  readonly state: unknown;
  readonly seq: number;
}

/** One connection as its client saw it, from open to close. */
export interface Connected {
  readonly name: string;
  readonly className: string;
  readonly agent: string;
  readonly readonly: boolean;
  readonly states: StateFrame[];
  /** The notes that it sent. It does not receive their states. */
  readonly wrote: string[];
  /** Those of this connection, in order. */
  readonly sent: ReadonlyArray<string>;
  /** Ids of notes that the agent said it has taken. */
  readonly acked: string[];
  refusals: number;
  /** States that were older than one it had, and that it passed over. */
  stale: number;
  open: boolean;
}

export interface Probe {
  readonly agent: string;
  readonly status: number;
  readonly tookMs: number;
}

export class Observed {
  readonly sent = new Map<string, SentWebhook>();
  /** When each key was stored in the inbox, by the broker's clock: senders repeat requests. */
  readonly copies = new Map<string, number[]>();
  /** Leases that ended before their time: the next owner comes sooner than a lease lives. */
  readonly leasesCut: Array<{ readonly key: string; readonly atMs: number }> = [];
  /** How often a gateway gave each key to a host unstored; `ended`: it reached no inbox. */
  readonly offers = new Map<string, { all: number; ended: number }>();
  readonly runs: Run[] = [];
  /** Turns that were stopped because they held their thread, with their process. */
  readonly stopped: Stopped[] = [];
  readonly posts: Post[] = [];
  /** Steps of calls that were run (`call-1 2`), and the last event that the agent knew of then. */
  readonly asked: Array<{ readonly step: string; readonly seq: number }> = [];
  /** What those were told who asked for durable calls, each time. */
  readonly told: Array<{ readonly call: string; readonly what: string }> = [];
  readonly controls: Controlled[] = [];
  /** Restores that the operator was told of: of which event, and which event it is. */
  readonly restores: Array<{ readonly agent: string; readonly at: number; readonly restored: number }> = []; // prettier-ignore
  readonly mailsIn = new Map<string, MailIn>();
  readonly mailsOut: MailOut[] = [];
  readonly connections: Connected[] = [];
  readonly probes: Probe[] = [];
  /** Status of every request with a bad signature. */
  readonly forged: number[] = [];
  /** Ids that only forged requests and readonly connections used. */
  readonly forbidden: string[] = [];
  /** Times that a run may have been lost: new hosts, appends that were refused or unheard of. */
  disruptions = 0;
  /** A host's clock was wrong for a time. */
  clockJumped = false;
  /** What a host said that it must never say. */
  readonly defects: string[] = [];
  /** What the orders of an agent that was erased at rest held; undefined: no erasure. */
  erased: ReadonlyArray<string> | undefined;
  /** The operator asked again and again, and was not told that all is gone. */
  eraseFailed = false;
  /** Agents one of whose events was damaged, and the event's sequence. */
  readonly damaged = new Map<string, number>();
  /** What was wrong with the owners of shards at rest, in words. */
  readonly unowned: string[] = [];
  /** What damaged agents answered at the end. */
  readonly damagedAnswers: number[] = [];
  /** Trimmed events, oldest first, by agent, without those of an agent erased since. */
  readonly trimmed = new Map<string, StoredEvent[]>();

  /** They go to the archive first. */
  archives = false;

  /** The agent's events before `keepFromSeq` go from the journal now. */
  trims(id: AgentId, stored: ReadonlyArray<StoredEvent>, keepFromSeq: number): void {
    const key = addressKey(id);
    const before = this.trimmed.get(key) ?? [];
    const after = before.at(-1)?.seq ?? 0;
    const going = stored.filter(({ seq }) => seq < keepFromSeq && seq > after);
    if (going.length > 0) this.trimmed.set(key, [...before, ...going]);
  }
}
