/**
 * The limits of a client's socket that no agent has: the code of a module keeps its other end
 * (`moduleSocket`). `SocketTable` applies the same limits to the sockets of agents.
 */
import { CLOSE_LAGGING } from "../../core/http/closeFrame.ts";
import type { PendingSocket } from "../../core/socket/PendingSocket.ts";
import type { LogShape } from "../../core/telemetry/Log.ts";
import { OWN_ADDRESS } from "./connectSocket.ts";
import type { SocketRates } from "./SocketRates.ts";

/** A client that exceeds its rate is closed with 1013, and its message is not delivered. */
export const limitedSocket = (
  pending: PendingSocket,
  rates: SocketRates,
  log: LogShape,
): PendingSocket => ({
  drop: () => pending.drop(),
  open: (socket, address = OWN_ADDRESS) => {
    const meter = rates.open(address);
    const handlers = pending.open(socket, address);
    const withinRate = (bytes: number): boolean => {
      const reason = meter.take(bytes);
      if (reason === undefined) return true;
      log.warn("a client exceeded its rate; its socket was closed", { why: reason });
      socket.close(CLOSE_LAGGING, reason);
      return false;
    };
    return {
      onMessage: (data) => {
        const bytes = typeof data === "string" ? Buffer.byteLength(data) : data.length;
        if (withinRate(bytes)) handlers.onMessage(data);
      },
      onPing: withinRate,
      onClose: (code, reason, wasClean) => {
        meter.close();
        handlers.onClose(code, reason, wasClean);
      },
    };
  },
});
