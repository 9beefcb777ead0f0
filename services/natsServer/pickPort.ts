/**
 * Picks a TCP port on 127.0.0.1 that no program listens on, for a server that keeps it.
 *
 * Listening on port 0 would return a port of the ephemeral range, from which outgoing connections
 * take theirs. While the server is down, a client that reconnects to such a port may be assigned
 * that very port as its own. It then connects to itself, and the server can never listen there
 * again.
 */
import { createServer } from "node:net";

/** Below every common ephemeral range (from 32768 on Linux, else 49152), above registered ports. */
const PORT_MIN = 20_000;
const PORT_MAX = 32_000;
/** After this many taken ports, chosen at random, the machine has none free. */
const ATTEMPTS_MAX = 200;

/** Another program may take the port before the caller listens; the caller then picks again. */
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
