/**
 * The thread that watches the main thread of a process that runs agents. Started by
 * `startWatchdog`.
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
 *    limit at most once in `STALL_QUIET_MS`. Each hold is reported to the main thread, which counts them by agent
 *    (`Stall`). A hold that was not looked into counts for the turn that entered last.
 * 6. A process whose memory is nearly full is ended, too, before V8 aborts it (`judgeMemory`). The
 *    turn that is most often found running is named, else the turn that entered last. `exactly` is
 *    true only if that turn runs nearly always: the memory may be another's.
 * 7. A process that can open no more files is ended, too. No turn is named.
 */
import { Session, type Debugger, type InspectorNotification } from "node:inspector";
import { writeSync } from "node:fs";
import { parentPort, workerData } from "node:worker_threads";
import { logLine, type LogLevel } from "../node/logLine.ts";
import { ownFolder } from "../ownPackage/ownFile.ts";
import { Board, type WatchedTurn } from "./Board.ts";
import { Endings } from "./Endings.ts";
import { HoldMeter } from "./HoldMeter.ts";
import { judgeLook, type Judged } from "./judgeLook.ts";
import { judgeMemory, residentMb } from "./judgeMemory.ts";
import { report, REPORT_BEAT_MS } from "./reports.ts";
import { WHAT_RUNS, type PausedCode, type Stall, type WatchdogData } from "./pausedCode.ts";

/** The file descriptor of standard error. */
const STDERR = 2;
/** A quarter of the least hold that is logged. */
const LOOK_MS = 50;
/** Holds below this are ordinary work: a large JSON body, a collection of garbage. */
const STALL_MS = 200;
/** Rule 5: each look costs a pause of some 20 ms, and recompilation of code. */
const STALL_QUIET_MS = 60_000;
/**
 * Rule 2: the time without a message from the main thread after which its code is native. The
 * debugger pauses JavaScript within some 100 ms, and within a second and more where the machine is
 * busy: the thread reports a thousand scripts first.
 */
const SILENT_MS_MAX = 1_500;
/** Microtasks that follow each other run Node's own code between them: some ten steps. */
const STEPS_MAX = 50;
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
/** Rule 3: the runtime's own work is in slices; this is far above the longest. */
const OUTSIDE_FACTOR = 4;
/** Rule 1: a turn that begins late in a hold is ended at most this part of its limit too late. */
const LOOKS_A_LIMIT = 4;

/** A message, with the fields of the last turn that was found. */
const MANY = "many turns held the thread of their process, one after the other";

const { memory, cpuMs, log, endings, reports, heapLimitMb, rssMaxMb } = workerData as WatchdogData;
const board = new Board(memory);
const meter = new HoldMeter();

/** The main thread, which writes standard error for its threads, is held. */
function write(level: LogLevel, message: string, own: Readonly<Record<string, unknown>>): void {
  const fields = { ...log.fields, ...own };
  writeSync(STDERR, logLine(log.format, { level, message, fields, timeMs: Date.now() }));
}

/** About the present hold. */
let found: Judged | undefined;
let heldMs = 0;
/** The turn that had entered last when the hold became a stall. */
let heldBy: WatchedTurn | undefined;
let looking = false;
/** When a stall was last looked into. */
let stalledMs = -STALL_QUIET_MS;

setInterval(() => {
  const nowMs = performance.now();
  lookAtMemory(nowMs);
  const before = heldMs;
  heldMs = meter.look(board.beats, nowMs);
  if (heldMs === 0 || board.debugged) return isOver(before);
  if (heldMs >= STALL_MS) heldBy ??= board.last;
  if (looking || isEnding || heldMs < nextLookMs()) return;
  if (found === undefined && heldMs < limitOf(board.last) / LOOKS_A_LIMIT) {
    if (nowMs - stalledMs < STALL_QUIET_MS) return;
    stalledMs = nowMs;
  }
  looking = true;
  void lookInto().finally(() => (looking = false));
}, LOOK_MS);

if (reports) setInterval(() => report({ beat: true, held: heldMs >= STALL_MS }), REPORT_BEAT_MS);

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

/** Rule 6. */
function lookAtMemory(nowMs: number): void {
  if (isEnding || board.debugged) return;
  const { heapMb, rssMb: beatRssMb } = board.atBeat;
  if (beatRssMb === 0) return; // no beat yet
  const seen = { heapMb, beatRssMb, rssMb: residentMb(), heapLimitMb, rssMaxMb };
  const fullForMs = fullSinceMs === undefined ? 0 : nowMs - fullSinceMs;
  const judged = judgeMemory({ ...seen, held: heldMs > 0, fullForMs });
  if (!judged.full) fullSinceMs = undefined;
  else fullSinceMs ??= nowMs;
  if (!judged.over) return;
  isEnding = true;
  if (judged.text === undefined) return endWithoutFiles();
  void endFull(judged.text);
}

/** The files may have been opened long ago, so no turn is blamed. */
function endWithoutFiles(): void {
  write("error", "a process has run out of file descriptors, and is ended", {});
  noteEnding(undefined, "its process had run out of file descriptors", false);
  process.kill(process.pid, "SIGKILL");
}

async function endFull(text: string): Promise<void> {
  const reasonOf = (how: string): string =>
    `the memory of its process was nearly full (${text}) ${how}`;
  const { last } = board;
  // V8 may abort before the code is paused.
  noteEnding(last, reasonOf("and its turn was the last one to begin"), false);
  const { code, exactly } = await mostSeen();
  const turn = code?.turn ?? last;
  write("error", "the memory of a process is nearly full: the process is ended", {
    ...fieldsOf(turn),
    ...(code !== undefined && { where: code.where }),
    exactly,
    memory: text,
  });
  if (code !== undefined)
    noteEnding(turn, reasonOf(`while its turn ran, in ${code.where}`), exactly);
  process.kill(process.pid, "SIGKILL");
}

/** Rule 6. Undefined: no turn was found running. */
async function mostSeen(): Promise<{
  readonly code: PausedCode | undefined;
  readonly exactly: boolean;
}> {
  const seen = new Map<string, PausedCode[]>();
  let count = 0;
  let run: number | undefined;
  for (let look = 0; look < LOOKS; look++) {
    const code = await sample();
    if (code?.turn !== undefined) {
      const { class: ofClass, name, key } = code.turn;
      const place = JSON.stringify([ofClass, name, key]);
      seen.set(place, [...(seen.get(place) ?? []), code]);
      count++;
    }
    // The turn runs until it is ended, or can't be paused.
    const isHeld = heldMs > 0 && code?.turn !== undefined && code.run === run;
    if (code === undefined || isHeld) return { code, exactly: isHeld };
    run = code.run;
    await new Promise((resolve) => setTimeout(resolve, LOOKS_EVERY_MS));
  }
  const [most = []] = [...seen.values()].toSorted((a, b) => b.length - a.length);
  const exactly = most.length >= SEEN_MIN && most.length >= count * NEARLY_ALWAYS;
  return { code: most[0], exactly };
}

/** For the next owner of the input, and for the control process. */
function noteEnding(turn: WatchedTurn | undefined, reason: string, exactly: boolean): void {
  if (turn !== undefined) new Endings(endings).note(turn, reason);
  if (reports) report({ ending: { reason, turn, exactly } });
}

async function lookInto(): Promise<void> {
  const code = await sample();
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
    parentPort!.postMessage({ className, name, ms: ownMs } satisfies Stall);
  }
  heldBy = undefined;
  if (of !== undefined) {
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

/**
 * Pauses the main thread, asks what runs, and resumes it. Undefined: it can't be paused. Where
 * the pause meets code of no turn, or none of its author's, it steps to what follows.
 */
async function sample(): Promise<PausedCode | undefined> {
  const session = new Session();
  session.connectToMainThread();
  try {
    // A paused frame names its script by number only.
    const urls = new Map<string, string>();
    session.on("Debugger.scriptParsed", ({ params: { scriptId, url } }) => urls.set(scriptId, url));
    session.post("Debugger.enable");
    let best: Paused | undefined;
    for (let n = 0; n < STEPS_MAX; n++) {
      const command = n === 0 ? "Debugger.pause" : "Debugger.stepInto";
      const next = await pausedAfter(session, command, urls);
      if (next === undefined) break;
      const isExact = next.inAuthors && next.code.turn !== undefined;
      if (best?.code.turn === undefined || isExact) best = next;
      if (isExact || heldMs === 0) break;
    }
    session.post("Debugger.resume");
    return best?.code;
  } finally {
    session.disconnect();
  }
}

interface Paused {
  readonly code: PausedCode;
  /** The line is the author's, and not only Node's. */
  readonly inAuthors: boolean;
}

/** What runs where the thread pauses next. The thread stays paused. */
function pausedAfter(
  session: Session,
  command: "Debugger.pause" | "Debugger.stepInto",
  urls: ReadonlyMap<string, string>,
): Promise<Paused | undefined> {
  const urlOf = ({ location }: Debugger.CallFrame): string => urls.get(location.scriptId) ?? "";
  return new Promise((resolve) => {
    const end = (paused?: Paused): void => {
      clearTimeout(late);
      session.off("Debugger.scriptParsed", onMessage);
      session.off("Debugger.paused", onPaused);
      resolve(paused);
    };
    const late = setTimeout(end, SILENT_MS_MAX);
    const onMessage = (): unknown => late.refresh();
    const onPaused = ({ params }: InspectorNotification<Debugger.PausedEventDataType>): void => {
      onMessage();
      const [frame] = params.callFrames;
      const author = params.callFrames.find((each) => isAuthors(urlOf(each))) ?? frame;
      if (frame === undefined || author === undefined) return;
      const { lineNumber, columnNumber = 0 } = author.location;
      const ask = `globalThis["${WHAT_RUNS}"]`;
      const place = `${JSON.stringify(urlOf(author))}, ${lineNumber}, ${columnNumber}`;
      session.post(
        "Debugger.evaluateOnCallFrame",
        { callFrameId: frame.callFrameId, expression: `${ask}(${place})`, returnByValue: true },
        (error, answer) => {
          const code = error === null ? (answer.result.value as PausedCode | undefined) : undefined;
          end(code && { code, inAuthors: isAuthors(urlOf(author)) });
        },
      );
    };
    session.on("Debugger.scriptParsed", onMessage);
    session.on("Debugger.paused", onPaused);
    session.post(command);
  });
}

/** Not Node's own, and not a dependency's: the line that the author can change. */
const isAuthors = (url: string): boolean =>
  url.startsWith("file:") && !url.includes("/node_modules/") && !url.startsWith(ownFolder);
