/**
 * A server that speaks S3 over loopback (`@20minutes/s3rver`), with a bucket on a disk of its own.
 * It checks keys and signatures. Faults that it does not have are answered in its place, in the
 * words of S3's reference.
 */
import { truncateSync } from "node:fs";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { createRequire } from "node:module";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { tempFolder } from "./tempFolder.ts";

type Handler = (request: IncomingMessage, response: ServerResponse) => void;

/** What is used of a package that has no types. */
type S3rver = new (options: object) => {
  readonly callback: () => Handler;
  readonly configureBuckets: () => Promise<unknown>;
  readonly logger: { readonly close: () => void };
};

export const BUCKET = "archive";
/** The only one that the server knows. */
export const KEY = { accessKeyId: "S3RVER", secretAccessKey: "S3RVER" };

/** Answers a request, or passes it on to the server. */
export type S3Fault = (request: IncomingMessage, response: ServerResponse, pass: Handler) => void;

export interface S3Server {
  readonly endpoint: string;
  readonly bucket: string;
  /** Its environment, for processes. */
  readonly env: Readonly<Record<string, string>>;
  /** Where the bucket's objects lie. */
  readonly folder: string;
  fault: S3Fault | undefined;
  readonly stop: () => Promise<void>;
}

export async function startS3(): Promise<S3Server> {
  const folder = tempFolder("s3");
  const Server = createRequire(import.meta.url)("@20minutes/s3rver") as S3rver;
  const common = { directory: folder.path, silent: true, vhostBuckets: false };
  const server = new Server({ ...common, configureBuckets: [{ name: BUCKET }] });
  // It leaves the last slash of a bucket's own path out of what is signed, where S3 and its clients
  // have it. So it does not compare signatures of lists; keys are checked all the same.
  const lists = new Server({ ...common, allowMismatchedSignatures: true });
  await server.configureBuckets();
  const [passObject, passList] = [server.callback(), lists.callback()];
  const pass: Handler = (request, response) =>
    (/^\/[^/?]+\/\?/.test(request.url!) ? passList : passObject)(request, response);
  const http = createServer((request, response) => {
    if (started.fault === undefined) pass(request, response);
    else started.fault(request, response, pass);
  });
  await new Promise<void>((resolve) => http.listen(0, "127.0.0.1", resolve));
  const endpoint = `http://127.0.0.1:${(http.address() as AddressInfo).port}`;
  const started: S3Server = {
    endpoint,
    bucket: BUCKET,
    env: {
      AWS_ENDPOINT_URL: endpoint,
      AWS_ACCESS_KEY_ID: KEY.accessKeyId,
      AWS_SECRET_ACCESS_KEY: KEY.secretAccessKey,
    },
    folder: join(folder.path, BUCKET),
    fault: undefined,
    stop: async () => {
      http.closeAllConnections();
      await new Promise((resolve) => http.close(resolve));
      for (const each of [server, lists]) each.logger.close();
      folder.remove();
    },
  };
  return started;
}

/** An answer with an error of S3's. */
export const refusal =
  (status: number, code: string, headers: Readonly<Record<string, string>> = {}): S3Fault =>
  (request, response) => {
    request.resume();
    response.writeHead(status, { "content-type": "application/xml", ...headers });
    response.end(
      `<?xml version="1.0"?><Error><Code>${code}</Code><Message>as S3 says it</Message></Error>`,
    );
  };

/** Keeps the first half of what is put, and says that all is stored, or ends the connection. */
export const keepHalf =
  ({ folder }: S3Server, answer: "says so" | "no answer"): S3Fault =>
  (request, response, pass) => {
    if (request.method === "PUT") {
      const bytes = Number(request.headers["content-length"]);
      const key = new URL(request.url!, "http://s3").pathname.split("/").slice(2).join("/");
      const end = response.end.bind(response) as (...given: unknown[]) => ServerResponse;
      response.end = ((...given: unknown[]) => {
        truncateSync(join(folder, `${key}._S3rver_object`), bytes >> 1);
        if (answer === "no answer") request.socket.destroy();
        return end(...given);
      }) as never;
    }
    pass(request, response);
  };
