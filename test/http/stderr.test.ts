/** What uWebSockets.js prints by itself, past the log of a gateway: nothing. */
import { join } from "node:path";
import { expect, test } from "vitest";
import { runProgram } from "../../services/natsServer/runProgram.ts";
import { nativeReason } from "./kit.ts";

const ROOT = join(import.meta.dirname, "../..");
const sourceOf = (path: string): string => JSON.stringify(join(ROOT, path));

const PIECE_BYTES = 64 * 1024;
/** 16 MiB, more than the buffers of a loopback connection hold. */
const PIECES = 256;

/** Streams to a caller that reads nothing until the stream waits for it, and then all of it. */
const SCRIPT = `
  import { Effect } from "effect";
  import { connect } from "node:net";
  import { setImmediate } from "node:timers/promises";
  import { makeUwsServer } from ${sourceOf("services/uws/UwsServer.ts")};
  import { loadUws } from ${sourceOf("services/uws/loadUws.ts")};
  const options = {
    hostname: "127.0.0.1", port: 0, headerTimeoutMs: 60_000, bodyTimeoutMs: 60_000,
    headerBytesMax: 16_384, connectionsMax: 10, socketBufferBytesMax: 2 ** 20,
    unsentBytesMax: 2 ** 24, bodiesBytesMax: 2 ** 24, messageBytesMax: 65_536,
  };
  let read = 0;
  const reader = {
    cancel: async () => undefined,
    // Not in the library's callback, inside which it accepts any write.
    read: async () => {
      await setImmediate();
      if (++read > ${PIECES}) return { done: true, value: undefined };
      return { done: false, value: new Uint8Array(${PIECE_BYTES}) };
    },
  };
  const handlers = {
    limitBody: () => 0,
    onRequest: (exchange) => exchange.stream({ status: 200, headers: [], body: "" }, reader),
    onUpgrade: () => Promise.reject(new Error("no upgrade is expected")),
    onFailure: ({ cause }) => console.log("failed: " + cause),
  };
  const program = Effect.gen(function* () {
    const { port } = yield* makeUwsServer(loadUws()).listen(options, handlers);
    const socket = connect(port, "127.0.0.1").pause();
    socket.write("GET / HTTP/1.1\\r\\nhost: h\\r\\nconnection: close\\r\\n\\r\\n");
    let before = -1;
    while (read === 0 || read > before) {
      before = read;
      yield* Effect.sleep(300);
    }
    console.log(read <= ${PIECES} ? "the stream waits" : "the stream did not wait");
    let bytes = 0;
    yield* Effect.promise(async () => { for await (const piece of socket) bytes += piece.length; });
    console.log(bytes > ${PIECES * PIECE_BYTES} ? "whole" : "cut off after " + bytes);
  });
  await Effect.runPromise(Effect.scoped(program));
  process.exit(0);
`;

test.skipIf(nativeReason !== undefined)(
  "a streamed answer that waits for its caller prints no warning of the library",
  async () => {
    const flags = ["--conditions=agents-source", "--import", "tsx", "--input-type=module"];
    const end = await runProgram(process.execPath, [...flags, "-e", SCRIPT], {
      cwd: ROOT,
      timeoutMs: 90_000,
    });
    const stdout = "the stream waits\nwhole\n";
    expect(end).toEqual({ kind: "exited", code: 0, stdout, stderr: "" });
  },
);
