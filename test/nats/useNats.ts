/** One nats-server for a file's or `describe`'s tests, with connections closed at their end. */
import { afterAll, beforeAll } from "vitest";
import type { Subjects } from "../../schemas/Subjects.ts";
import type { NatsShape } from "../../services/nats/client/Nats.ts";
import {
  openConnection,
  type NatsConnectionShape,
} from "../../services/nats/client/NatsConnection.ts";
import { openNats } from "../../services/nats/setup/openNats.ts";
import type { ProvisionOptions } from "../../services/nats/setup/provision.ts";
import { startNats, type TestNats, type TestNatsOptions } from "../kit/natsServer.ts";

export interface UsedNats {
  readonly server: TestNats;
  /** A connection of its own, as another process has it. */
  readonly connect: () => Promise<NatsConnectionShape>;
  /** Opens an installation over a connection of its own; provisions it where it is said how. */
  readonly open: (subjects: Subjects, provision?: ProvisionOptions) => Promise<NatsShape>;
}

export function useNats(options: TestNatsOptions = {}): UsedNats {
  let server: TestNats | undefined;
  const connections: NatsConnectionShape[] = [];
  beforeAll(async () => {
    server = await startNats(options);
  });
  afterAll(async () => {
    for (const connection of connections) await connection.close();
    await server?.stop();
  });
  const connect = async (): Promise<NatsConnectionShape> => {
    const connection = await openConnection({ servers: server!.url }, () => undefined);
    connections.push(connection);
    return connection;
  };
  return {
    get server() {
      return server!;
    },
    connect,
    open: async (subjects, provision) =>
      openNats(await connect(), subjects, provision === undefined ? {} : { provision }),
  };
}
