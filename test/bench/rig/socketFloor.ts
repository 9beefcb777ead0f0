/**
 * The base for sockets: uWebSockets alone, in a separate process. `publish <port>`: each path is a
 * topic; any message publishes 1 KB to all of its sockets. `echo <port> <nats>`: a message goes as
 * a core NATS request to a responder, its reply to the socket; an HTTP request too. `respond
 * <nats>`: the responder, in a process of its own; with `echo … both` it is in that one.
 */
import { connect } from "@nats-io/transport-node";
import type { HttpResponse, WebSocket } from "uWebSockets.js";
import { loadUws } from "../../../services/uws/loadUws.ts";

interface Opened {
  readonly path: string;
}

const SUBJECT = "floor.echo";
const decoder = new TextDecoder();
const [, , what, portText, nats, both] = process.argv;
const uws = loadUws();
if ("_tag" in uws) throw uws;
const app = uws.App();
const served = (
  onOpen: (ws: WebSocket<Opened>) => void,
  onMessage: (ws: WebSocket<Opened>, data: ArrayBuffer) => void,
): void => {
  app.ws<Opened>("/*", {
    // As the gateway has it: nothing is dropped, and pings keep sockets open.
    maxBackpressure: 0,
    idleTimeout: 120,
    sendPingsAutomatically: true,
    upgrade: (res, req, context) =>
      res.upgrade(
        { path: req.getUrl() },
        req.getHeader("sec-websocket-key"),
        req.getHeader("sec-websocket-protocol"),
        req.getHeader("sec-websocket-extensions"),
        context,
      ),
    open: onOpen,
    message: onMessage,
  });
  app.listen("127.0.0.1", Number(portText), (listening) => {
    if (!listening) throw new Error(`port ${portText} is taken`);
    console.log("listening");
  });
};

if (what === "publish") {
  let n = 0;
  const frame = (): string =>
    `{"type":"cf_agent_state","state":{"n":${(n += 1)},"text":"${"x".repeat(1000)}"}}`;
  served(
    (ws) => {
      ws.subscribe(ws.getUserData().path);
      ws.send(frame(), false);
    },
    (ws) => void app.publish(ws.getUserData().path, frame(), false),
  );
} else {
  const servers = (what === "respond" ? portText : nats)!;
  const respond = async (): Promise<void> => {
    const client = await connect({ servers });
    client.subscribe(SUBJECT, {
      callback: (error, message) => {
        if (error !== null) throw error;
        const { id, args } = JSON.parse(decoder.decode(message.data)) as {
          id: string;
          args: unknown[];
        };
        message.respond(
          JSON.stringify({ type: "rpc", id, success: true, result: args[0], done: true }),
        );
      },
    });
    await client.flush();
  };
  if (what === "respond") {
    await respond();
    console.log("listening");
  } else {
    if (both !== undefined) await respond();
    const client = await connect({ servers });
    const ask = async (res: HttpResponse, text: string): Promise<void> => {
      const reply = await client.request(SUBJECT, JSON.stringify({ id: "1", args: [text] }));
      const { result } = reply.json<{ result: string }>();
      res.cork(() => void res.end(result));
    };
    app.any("/*", (res, req) => {
      res.onAborted(() => {
        throw new Error("a request was given up");
      });
      if (req.getMethod() === "get") return void ask(res, "hello");
      // All of it comes in one piece.
      res.onData((data) => void ask(res, decoder.decode(data.slice(0))));
    });
    served(
      (ws) => void ws.send("{}", false),
      (ws, data) => {
        // Valid only until this returns, so it is copied.
        const payload = new Uint8Array(data.slice(0));
        void client
          .request(SUBJECT, payload)
          .then((reply) => ws.send(decoder.decode(reply.data), false));
      },
    );
  }
}
