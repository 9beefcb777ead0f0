/** Which addresses the limits of one sender count as one, by the listener's handlers. */
import { EventEmitter } from "node:events";
import { Effect, Exit, Scope } from "effect";
import { afterEach, expect, test, vi } from "vitest";
import { MAIL_BOUNDS_DEFAULT } from "../../services/mail/MailServices.ts";
import { smtpListener } from "../../services/smtp/SmtpListener.ts";

type Handler = (session: object, reply: (error?: Error | null) => void) => void;
interface Options {
  readonly onConnect: Handler;
  readonly onClose: (session: object) => void;
  readonly onMailFrom: (
    address: object,
    session: object,
    reply: (error?: Error | null) => void,
  ) => void;
}

const made: Options[] = [];
vi.mock("smtp-server", () => ({
  SMTPServer: class {
    constructor(options: Options) {
      made.push(options);
    }
    on = () => this;
    listen = () => {
      const net = Object.assign(new EventEmitter(), { address: () => ({ port: 25 }) });
      queueMicrotask(() => net.emit("listening"));
      return net;
    };
    close = (closed: () => void) => closed();
  },
}));

const scope = Effect.runSync(Scope.make());
afterEach(() => Effect.runPromise(Scope.close(scope, Exit.void)));

test("the addresses of one IPv6 network are one sender, those of another are not", async () => {
  const asked: string[] = [];
  const listening = smtpListener.listen(
    { ...MAIL_BOUNDS_DEFAULT, hostname: "::", port: 0, connectionsPerPeerMax: 2 },
    {
      peer: (peer) => (asked.push(peer), { _tag: "Accepted" }),
      recipient: () => ({ _tag: "Accepted" }),
      message: async () => ({ _tag: "Accepted" }),
    },
  );
  await Effect.runPromise(Scope.provide(listening, scope));
  const [options] = made as [Options];
  const connect = (remoteAddress: string): string => {
    let answer = "none";
    options.onConnect({ remoteAddress }, (error) => (answer = error?.message ?? "welcome"));
    return answer;
  };
  expect(["2001:db8:1:2::1", "2001:db8:1:2:ffff::2"].map(connect)).toEqual(["welcome", "welcome"]);
  expect(connect("2001:db8:1:2::3")).toMatch(/Too many connections/);
  expect(["2001:db8:1:3::1", "192.0.2.1"].map(connect)).toEqual(["welcome", "welcome"]);
  options.onClose({ remoteAddress: "2001:db8:1:2::3" });
  options.onClose({ remoteAddress: "2001:db8:1:2::1" });
  options.onClose({}); // it ended before it was greeted
  expect(connect("2001:db8:1:2::4")).toBe("welcome");
  for (const remoteAddress of ["2001:db8:1:2::1", "2001:db8:1:2::2", "192.0.2.1"])
    options.onMailFrom({}, { remoteAddress }, () => undefined);
  expect(new Set(asked).size).toBe(2);
});
