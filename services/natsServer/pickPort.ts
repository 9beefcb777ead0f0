/**
 * Picks a TCP port on 127.0.0.1 that nobody listens on now, for a server that will keep it.
 *
 * Not by listening on port 0: that gives a port of the range from which outgoing connections take
 * theirs. While the server is down, a client that reconnects to such a port can be given that very
 * port as its own, connects to itself, and the server can then never come back on it.
 */
import { createServer } from "node:net";

/** Below every common ephemeral range (Linux from 32768, others from 49152), above registered ones. */
const PORT_MIN = 20_000;
const PORT_MAX = 32_000;
/** So many taken ports in a row at random means that the machine has none. */
const ATTEMPTS_MAX = 200;

/** Somebody else may still take the port before its user listens: on failure pick again. */
export async function pickPort(): Promise<number> {
  for (let attempt = 0; attempt < ATTEMPTS_MAX; attempt += 1) {
    const port = PORT_MIN + Math.floor(Math.random() * (PORT_MAX - PORT_MIN));
    if (await isPortFree(port)) return port;
  }
  throw new Error(
    `no free TCP port found on 127.0.0.1 between ${PORT_MIN} and ${PORT_MAX} in ${ATTEMPTS_MAX} attempts`,
  );
}

/** True if a listener could be opened on 127.0.0.1:`port` just now. */
export function isPortFree(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const probe = createServer();
    probe.once("error", () => resolve(false));
    probe.listen({ port, host: "127.0.0.1", exclusive: true }, () => {
      probe.close(() => resolve(true));
    });
  });
}
