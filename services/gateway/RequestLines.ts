/**
 * Writes the log lines of plain requests and sockets for `Gateway`. A socket is only measured if
 * its lines are wanted.
 */
import { ClosingSocket } from "../../core/http/ClosingSocket.ts";
import type { HttpRequest, UpgradeDecision } from "../../core/http/HttpServer.ts";
import type { Abortable } from "../../core/lazyFetch/AbortSource.ts";
import { pathOf } from "../../core/http/requestHead.ts";
import { severityOf, type RequestLog } from "../../core/telemetry/RequestLog.ts";
import type { TimeShape } from "../../core/time/Time.ts";

type Head = Pick<HttpRequest, "method" | "target">;

/** In place of a status. */
const CALLER_LEFT = "caller left";

export class RequestLines {
  constructor(
    private readonly requests: RequestLog | undefined,
    private readonly time: Pick<TimeShape, "monotonicMs">,
  ) {}

  /** Called at a request's answer, `ms` after its head arrived. `why`: the gateway refused it. */
  onAnswer(request: Head, status: number, why?: string, ms?: number): void {
    // A 4xx of an agent or the module is not a failure of the system.
    const severity = why === undefined && status < 500 ? "info" : severityOf(status);
    const { method, target } = request;
    this.requests?.write(severity, () => ({
      what: `${method} ${pathOf(target)}`,
      status,
      ms,
      why,
    }));
  }

  /**
   * Measures from now to the call of the returned function. A caller that has left receives no
   * answer, which is no failure of the system.
   */
  begin(request: Head): (status: number, caller: Pick<Abortable, "fired">) => void {
    const startMs = this.time.monotonicMs();
    return (status, caller) => {
      const ms = this.time.monotonicMs() - startMs;
      if (!caller.fired) return this.onAnswer(request, status, undefined, ms);
      const what = `${request.method} ${pathOf(request.target)}`;
      this.requests?.write("info", () => ({ what, status: CALLER_LEFT, ms }));
    };
  }

  /**
   * Adds a line when the socket opens and one when it closes. Returns the decision otherwise
   * unchanged. A caller that has left is treated as by `begin`.
   */
  onUpgrade(
    { target }: Head,
    decision: UpgradeDecision,
    caller: Pick<AbortSignal, "aborted">,
  ): UpgradeDecision {
    const { requests } = this;
    const what = `socket ${pathOf(target)}`;
    if (caller.aborted) {
      requests?.write("info", () => ({ what, status: CALLER_LEFT }));
      return decision;
    }
    if (decision._tag === "Refuse") {
      const { status } = decision.response;
      const severity = status >= 500 ? "error" : "info";
      requests?.write(severity, () => ({ what, status, why: "it was refused" }));
      return decision;
    }
    if (requests?.wants("info") !== true) return decision;
    return {
      ...decision,
      open: (socket) => {
        const closed = this.lineOfClose(requests, what);
        const handlers = decision.open(socket);
        requests.write("info", () => ({ what, status: "opened" }));
        return new ClosingSocket(handlers, closed);
      },
    };
  }

  private lineOfClose(requests: RequestLog, what: string): (code: number, reason: string) => void {
    const openedMs = this.time.monotonicMs();
    return (code, reason) => {
      const ms = this.time.monotonicMs() - openedMs;
      requests.write("info", () => ({ what, status: `closed ${code}`, ms, why: reason || undefined })); // prettier-ignore
    };
  }
}
