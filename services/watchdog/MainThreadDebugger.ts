/**
 * The main thread's debugger, as the watchdog's thread uses it: pauses the code of the main thread,
 * asks what runs (`WHAT_RUNS`), and resumes it.
 *
 * 1. Only JavaScript can be paused, regular expressions and SQL included. Where the main thread
 *    sends no message for `SILENT_MS_MAX`, its code is native.
 * 2. Time in which the main thread waits for a processor does not count as silence (`HoldMeter`).
 * 3. Where a pause meets code of no turn, or none of its author's, it steps to what follows.
 */
import { Session, type Debugger, type InspectorNotification, type Runtime } from "node:inspector";
import { ownFolder } from "../ownPackage/ownFile.ts";
import { mainThreadWaitedMs } from "./HoldMeter.ts";
import { WHAT_RUNS, type PausedCode } from "./pausedCode.ts";

/**
 * Rule 1. The debugger pauses JavaScript within some 100 ms, and within a second and more where the
 * machine is busy: the thread reports a thousand scripts first.
 */
const SILENT_MS_MAX = 1_500;
/** Rule 2: shorter waits are those of any thread that runs. */
const MISSING_MS_MIN = 50;
/** Rule 3: microtasks that follow each other run Node's own code between them, some ten steps. */
const STEPS_MAX = 50;

interface Paused {
  readonly code: PausedCode;
  /** The line is the author's, and not only Node's. */
  readonly inAuthors: boolean;
}

export class MainThreadDebugger {
  private readonly session = new Session();
  /** By script: a paused frame names its script by number only. */
  private readonly urls = new Map<string, string>();

  constructor() {
    this.session.connectToMainThread();
    this.session.on("Debugger.scriptParsed", ({ params: { scriptId, url } }) =>
      this.urls.set(scriptId, url),
    );
    this.session.post("Debugger.enable");
  }

  /**
   * Undefined: the code can't be paused. Rule 3 applies while `isHeld`: code that is about to wait
   * would step for long.
   */
  async whatRuns(isHeld: () => boolean): Promise<PausedCode | undefined> {
    let best: Paused | undefined;
    for (let n = 0; n < STEPS_MAX; n++) {
      const next = await this.pausedAfter(n === 0 ? "Debugger.pause" : "Debugger.stepInto");
      if (next === undefined) break;
      const isExact = next.inAuthors && next.code.turn !== undefined;
      if (best?.code.turn === undefined || isExact) best = next;
      if (isExact || !isHeld()) break;
    }
    this.session.post("Debugger.resume");
    return best?.code;
  }

  close(): void {
    this.session.disconnect();
  }

  /** What runs where the thread pauses next. The thread stays paused. */
  private pausedAfter(
    command: "Debugger.pause" | "Debugger.stepInto",
  ): Promise<Paused | undefined> {
    const { session } = this;
    return new Promise((resolve) => {
      let waitedMs = mainThreadWaitedMs();
      const end = (paused?: Paused): void => {
        clearTimeout(late);
        session.off("Debugger.scriptParsed", onMessage);
        session.off("Debugger.paused", onPaused);
        resolve(paused);
      };
      const listen = (ms: number): void => {
        clearTimeout(late);
        late = setTimeout(onSilence, ms);
      };
      const onSilence = (): void => {
        // Rule 2.
        const beforeMs = waitedMs;
        waitedMs = mainThreadWaitedMs();
        const missingMs = waitedMs - beforeMs;
        if (missingMs >= MISSING_MS_MIN) listen(missingMs);
        else end();
      };
      const onMessage = (): void => {
        waitedMs = mainThreadWaitedMs();
        listen(SILENT_MS_MAX);
      };
      const onPaused = ({ params }: InspectorNotification<Debugger.PausedEventDataType>): void => {
        onMessage();
        const frames = params.callFrames;
        const author = frames.find((frame) => isAuthors(this.urlOf(frame))) ?? frames[0];
        if (author !== undefined) this.ask(author, end);
      };
      let late = setTimeout(onSilence, SILENT_MS_MAX);
      session.on("Debugger.scriptParsed", onMessage);
      session.on("Debugger.paused", onPaused);
      session.post(command);
    });
  }

  /**
   * Not on the paused frame: in a constructor before `super()`, V8 would take `this` for set, and
   * `super()` would throw.
   */
  private ask(author: Debugger.CallFrame, answer: (paused?: Paused) => void): void {
    const { lineNumber, columnNumber = 0 } = author.location;
    const url = this.urlOf(author);
    void codeAt(this.session, { url, lineNumber, columnNumber }).then((code) =>
      answer(code && { code, inAuthors: isAuthors(url) }),
    );
  }

  private urlOf({ location }: Debugger.CallFrame): string {
    return this.urls.get(location.scriptId) ?? "";
  }
}

/** A place in the main thread's code. Lines and columns count from 0. */
type CodePlace = Pick<Runtime.CallFrame, "url" | "lineNumber" | "columnNumber">;

/** Asks the main thread about a place in its code. Undefined: it could not answer. */
export const codeAt = (
  session: Session,
  { url, lineNumber, columnNumber }: CodePlace,
): Promise<PausedCode | undefined> =>
  new Promise((resolve) => {
    const expression = `globalThis["${WHAT_RUNS}"](${JSON.stringify(url)}, ${lineNumber}, ${columnNumber})`;
    session.post("Runtime.evaluate", { expression, returnByValue: true }, (error, given) =>
      resolve(error === null ? (given.result.value as PausedCode | undefined) : undefined),
    );
  });

/** Not Node's own, and not a dependency's: the line that the author can change. */
export const isAuthors = (url: string): boolean =>
  url.startsWith("file:") && !url.includes("/node_modules/") && !url.startsWith(ownFolder);
