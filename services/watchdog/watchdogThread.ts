/**
 * The thread that watches the main thread of a process with agents (`startWatchdog` starts it).
 *
 * 1. A turn that holds the thread for longer than its class allows (`cpuSeconds`) ends the process.
 *    The log line names the agent, the input and the source line that ran. Several looks at what
 *    runs tell one turn from many that follow each other (`judgeLook`).
 * 2. The turn is known exactly where the debugger can pause the code: in JavaScript, regular
 *    expressions and SQL. Native code can't be paused; then the turn that entered last is named,
 *    with `exactly: false`.
 * 3. A hold by code of no turn, or by many turns, ends the process after `OUTSIDE_FACTOR` times the
 *    limit.
 * 4. Nothing is ended while a debugger is open (`--inspect`): its breakpoints hold the thread, too.
 * 5. A shorter hold is logged when it is over, if it was of a turn: one that is short beside the
 *    limit at most once in `STALL_QUIET_MS`. Each hold is reported (`Stall`) to the main thread and
 *    the control process. A short one is looked into only if it is logged, or if those of its agent
 *    add up (`HeavyHolders`); else it counts for the turn that entered last.
 * 6. A process whose memory is nearly full is ended, too, before V8 aborts it (`judgeMemory`). The
 *    agent that holds most of it is named (`whoHolds`), else the turn that is most often found
 *    running, else the last that entered. `HeapSites` says which functions have allocated it.
 * 7. A process that can open no more files is ended (no turn is named), and one whose code has
 *    broken what it runs on (`RuntimeChecks`; the turn is named that had probably replaced it).
 */
import { parentPort, resourceLimits, workerData } from "node:worker_threads";
import { heapLimit } from "../node/heapLimit.ts";
import { logLine, type LogLevel } from "../node/logLine.ts";
import { writeStderr } from "../node/writeStderr.ts";
import { Board, type NamedTurn, type WatchedTurn } from "./Board.ts";
import { Endings } from "./Endings.ts";
import { HeapSites } from "./HeapSites.ts";
import { HeavyHolders } from "./HeavyHolders.ts";
import { HoldMeter, mainThreadWaitedMs } from "./HoldMeter.ts";
import { judgeLook, type Judged } from "./judgeLook.ts";
import { judgeMemory, residentMb } from "./judgeMemory.ts";
import { MainThreadDebugger } from "./MainThreadDebugger.ts";
import { report, REPORT_BEAT_MS } from "./reports.ts";
import { RuntimeChecks } from "./RuntimeChecks.ts";
import { whoHolds } from "./whoHolds.ts";
import type { Holder, PausedCode, Stall, WatchdogData } from "./pausedCode.ts";

/** A quarter of the least hold that is logged. */
const LOOK_MS = 50;
/** Holds below this are ordinary work: a large JSON body, a collection of garbage. */
const STALL_MS = 200;
/** Rule 5: each look costs a pause of some 20 ms, and recompilation of code. */
const STALL_QUIET_MS = 60_000;
/**
 * Rule 6: the number of looks at what runs, and the time between them. The limit leaves room for a
 * third of a second.
 */
const LOOKS = 9;
const LOOKS_EVERY_MS = 15;
/**
 * Rule 6: a turn runs nearly always if it is seen in this part of the looks, and at least so often.
 */
const NEARLY_ALWAYS = 0.75;
const SEEN_MIN = 3;
/** Rule 6: until then a heap is as large as the work needs, and nobody asks what fills it. */
const HEAP_SAMPLED = 0.5;
/**
 * Rule 6: for the answer which functions these are. V8 collects all garbage first, some two seconds
 * for 4 GB. A thread that is held may make V8 abort at any time.
 */
const ANSWER_MS = 3_000;
const HELD_ANSWER_MS = 500;
/**
 * Rule 6: for the answer who holds it. A thread that collects garbage answers afterwards, and one
 * that runs JavaScript at once.
 */
const HOLDER_MS = 1_500;
/** Rule 6: V8 counts so many as the young generation. */
const SEMI_SPACES = 3;
/** Rule 3: the runtime's own work is in slices; this is far above the longest. */
const OUTSIDE_FACTOR = 4;
/** Rule 1: a turn that begins late in a hold is ended at most this part of its limit too late. */
const LOOKS_A_LIMIT = 4;

/** A message, with the fields of the last turn that was found. */
const FULL = "the memory of a process is nearly full: the process is ended";
const MANY = "many turns held the thread of their process, one after the other";

const { memory, cpuMs, log, endings, reports, semiSpaceMb, rssMaxMb, ...given } =
  workerData as WatchdogData;
/** The limit of the old generation, which is what becomes full. */
const heapLimitMb = heapLimit(given.heapLimitMb - youngGenerationMb());
const board = new Board(memory);
const meter = new HoldMeter();

/** A thread reports V8's default, which is 48, 192 or 96 MB by the release of Node. */
function youngGenerationMb(): number {
  return semiSpaceMb === undefined
    ? (resourceLimits.maxYoungGenerationSizeMb ?? 0)
    : SEMI_SPACES * semiSpaceMb;
}

/** The main thread, which writes standard error for its threads, is held. */
function write(level: LogLevel, message: string, own: Readonly<Record<string, unknown>>): void {
  const fields = { ...log.fields, ...own };
  writeStderr(logLine(log.format, { level, message, fields, timeMs: Date.now() }));
}

/** About the present hold. */
let found: Judged | undefined;
let heldMs = 0;
/** The turn that had entered last when the hold became a stall. */
let heldBy: WatchedTurn | undefined;
let looking = false;
/** Rule 5: the present hold is looked into, and not logged. */
let isQuiet = false;
const heavy = new HeavyHolders();
/** When a stall was last looked into. */
let stalledMs = -STALL_QUIET_MS;

setInterval(() => {
  const nowMs = performance.now();
  lookAtMemory(nowMs);
  lookAtRuntime();
  const before = heldMs;
  heldMs = meter.look(board.beats, nowMs);
  if (heldMs === 0 || board.debugged) return isOver(before);
  if (heldMs >= STALL_MS) heldBy ??= board.last;
  if (looking || isEnding || heldMs < nextLookMs()) return;
  isQuiet = false;
  if (found === undefined && heldMs < limitOf(board.last) / LOOKS_A_LIMIT) {
    isQuiet = nowMs - stalledMs < STALL_QUIET_MS;
    if (isQuiet && !(heldBy !== undefined && heavy.isHeavy(heldBy, nowMs))) return;
    if (!isQuiet) stalledMs = nowMs;
  }
  looking = true;
  void lookInto().finally(() => (looking = false));
}, LOOK_MS);

if (reports) setInterval(() => report({ beat: true, held: heldMs >= STALL_MS }), REPORT_BEAT_MS);

const isHeldNow = (): boolean => heldMs > 0;

/** A first look at a stall, then some before the limit of what was found has passed. */
function nextLookMs(): number {
  if (found === undefined) return STALL_MS;
  const { heldMs: lookedMs, sinceMs } = found;
  const limitMs = limitOf(turnOf(found));
  return Math.max(
    lookedMs + STALL_MS,
    Math.min(sinceMs + limitMs, lookedMs + limitMs / LOOKS_A_LIMIT),
  );
}

/** Rule 2. */
const turnOf = ({ code }: Judged): WatchedTurn | undefined =>
  code === undefined ? board.last : code.turn;

const limitOf = (turn: Pick<WatchedTurn, "limitMs"> | undefined): number => {
  const limitMs = turn === undefined ? cpuMs * OUTSIDE_FACTOR : turn.limitMs;
  return limitMs === 0 ? Infinity : limitMs;
};

let fullSinceMs: number | undefined;
/** The process is being ended for its memory. */
let isEnding = false;
const sites = new HeapSites();

/** Rule 6. */
function lookAtMemory(nowMs: number): void {
  if (isEnding || board.debugged) return;
  const { heapMb, rssMb: beatRssMb } = board.atBeat;
  if (beatRssMb === 0) return; // no beat yet
  if (heapMb >= heapLimitMb * HEAP_SAMPLED) sites.start();
  const seen = { heapMb, beatRssMb, rssMb: residentMb(), heapLimitMb, rssMaxMb };
  const fullForMs = fullSinceMs === undefined ? 0 : nowMs - fullSinceMs;
  const judged = judgeMemory({ ...seen, held: heldMs > 0, fullForMs });
  if (!judged.full) fullSinceMs = undefined;
  else fullSinceMs ??= nowMs;
  if (!judged.over) return;
  isEnding = true;
  if (judged.text === undefined) return endWithoutFiles();
  void endFull(judged.text, judged.fullMb);
}

const checks = new RuntimeChecks();

/** Rule 7. */
function lookAtRuntime(): void {
  const { broken, last } = board;
  if (isEnding || board.debugged || broken === undefined) return;
  isEnding = true;
  const part = checks.nameOf(broken);
  write("error", "code has broken a part of what its process runs on: the process is ended", {
    ...fieldsOf(last),
    part,
    exactly: false,
  });
  noteEnding(last, `${part} of its process was replaced by code that does not work`, false);
  process.kill(process.pid, "SIGKILL");
}

/** The files may have been opened long ago, so no turn is blamed. */
function endWithoutFiles(): void {
  write("error", "a process has run out of file descriptors, and is ended", {});
  noteEnding(undefined, "its process had run out of file descriptors", false);
  process.kill(process.pid, "SIGKILL");
}

async function endFull(text: string, fullMb: number): Promise<void> {
  const { last } = board;
  // V8 may abort before the code is paused.
  noteEnding(last, nearlyFull(text, "and its turn was the last one to begin"), false);
  const holder = await whoHolds(fullMb, HOLDER_MS);
  if (holder === undefined) await blameTurn(text, last);
  else blameHolder(text, holder, last);
  const allocatedBy = await sites.largest(isHeldNow() ? HELD_ANSWER_MS : ANSWER_MS);
  if (allocatedBy.length > 0)
    write("error", "functions that allocated what fills the heap", { allocatedBy });
  process.kill(process.pid, "SIGKILL");
}

const nearlyFull = (text: string, how: string): string =>
  `the memory of its process was nearly full (${text}) ${how}`;

/** The turn that is mostly seen running, or else the last one. */
async function blameTurn(text: string, last: WatchedTurn | undefined): Promise<void> {
  const { code, exactly } = await mostSeen();
  const turn = code?.turn ?? last;
  const where = code && { where: code.where };
  write("error", FULL, { ...fieldsOf(turn), ...where, exactly, memory: text });
  if (code !== undefined)
    noteEnding(turn, nearlyFull(text, `while its turn ran, in ${code.where}`), exactly);
}

/** The agent whose object holds most of the memory. The last turn's input spends no attempt. */
function blameHolder(text: string, { mb, ...agent }: Holder, last: WatchedTurn | undefined): void {
  write("error", FULL, { ...agent, heldMb: mb, exactly: true, memory: text });
  if (last?.key !== undefined) new Endings(endings).forget(last, last.key);
  const reason = nearlyFull(text, `and its object held some ${mb} MB of it`);
  noteEnding({ ...agent, turn: "memory", attempt: 1 }, reason, true);
}

/** Rule 6. Undefined: no turn was found running. */
async function mostSeen(): Promise<{
  readonly code: PausedCode | undefined;
  readonly exactly: boolean;
}> {
  const seen = new Map<string, PausedCode[]>();
  let count = 0;
  let run: number | undefined;
  const thread = new MainThreadDebugger();
  for (let look = 0; look < LOOKS; look++) {
    const code = await thread.whatRuns(isHeldNow);
    if (code === undefined) break;
    if (code.turn !== undefined) {
      const { class: ofClass, name, key } = code.turn;
      const place = JSON.stringify([ofClass, name, key]);
      seen.set(place, [...(seen.get(place) ?? []), code]);
      count++;
    }
    // The turn runs until it is ended.
    if (heldMs > 0 && code.turn !== undefined && code.run === run) return { code, exactly: true };
    run = code.run;
    await new Promise((resolve) => setTimeout(resolve, LOOKS_EVERY_MS));
  }
  const [most = []] = [...seen.values()].toSorted((a, b) => b.length - a.length);
  const exactly = most.length >= SEEN_MIN && most.length >= count * NEARLY_ALWAYS;
  return { code: most[0], exactly };
}

/** For the next owner of the input, and for the control process. */
function noteEnding(turn: NamedTurn | undefined, reason: string, exactly: boolean): void {
  if (turn !== undefined) new Endings(endings).note(turn, reason);
  if (reports) report({ ending: { reason, turn, exactly } });
}

async function lookInto(): Promise<void> {
  const thread = new MainThreadDebugger();
  const code = await thread.whatRuns(isHeldNow).finally(() => thread.close());
  if (heldMs === 0) return; // it was over meanwhile
  found = judgeLook(found, { code, heldMs });
  const turn = turnOf(found);
  const limitMs = limitOf(turn);
  const ownMs = heldMs - found.sinceMs;
  const isTooLong = ownMs >= limitMs || heldMs >= limitMs * OUTSIDE_FACTOR;
  if (!isTooLong || isEnding) return;
  const exactly = code !== undefined && ownMs >= limitMs;
  const where = code?.where ?? "native code";
  write("error", endMessage(turn, ownMs >= limitMs), {
    ...fieldsOf(turn),
    ...(!exactly && { exactly }),
    where,
    heldMs: Math.round(heldMs),
  });
  const reason = `its turn held the thread of its process for ${(ownMs / 1000).toFixed(1)} s, in ${where}`;
  noteEnding(turn, reason, exactly);
  process.kill(process.pid, "SIGKILL");
}

function endMessage(turn: WatchedTurn | undefined, isAlone: boolean): string {
  if (turn === undefined)
    return "code outside of any turn held the thread of its process, which is ended";
  return isAlone
    ? "a turn held the thread of its process for longer than cpuSeconds: the process is ended"
    : `${MANY}: the process is ended`;
}

function isOver(ms: number): void {
  const of = found?.code?.turn;
  const holder = found?.code === undefined ? heldBy : of;
  const ownMs = ms - (found?.sinceMs ?? 0);
  if (ownMs >= STALL_MS && holder !== undefined && !board.debugged) {
    const { class: className, name } = holder;
    const stall: Stall = {
      className,
      name,
      ms: ownMs,
      waitedMs: mainThreadWaitedMs(),
      exactly: of !== undefined,
    };
    heavy.note(holder, ownMs, performance.now());
    parentPort!.postMessage(stall);
    if (reports) report({ stall });
  }
  heldBy = undefined;
  if (of !== undefined && !isQuiet) {
    const isAlone = found!.sinceMs === 0;
    write("warn", isAlone ? "a turn held the thread of its process" : MANY, {
      ...fieldsOf(of),
      where: found!.code!.where,
      heldMs: Math.round(ms),
    });
  }
  found = undefined;
}

function fieldsOf(turn: WatchedTurn | undefined): Readonly<Record<string, unknown>> {
  if (turn === undefined) return {};
  const { limitMs: _limitMs, ...fields } = turn;
  return fields;
}
