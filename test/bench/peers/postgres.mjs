/** The counting agent by hand: node:http and one statement in Postgres, committed before the answer. */
import { createHmac, timingSafeEqual } from "node:crypto";
import { createServer } from "node:http";
import pg from "pg";

const [, , port, postgresPort] = process.argv;
/** Twice Postgres' cores in use, as its own documentation has it for pools; more is slower here. */
const CONNECTIONS = 16;
const pool = new pg.Pool({
  host: "127.0.0.1",
  port: Number(postgresPort),
  user: "bench",
  database: "postgres",
  max: CONNECTIONS,
});
await pool.query(
  "CREATE TABLE IF NOT EXISTS deliveries (id text PRIMARY KEY, agent text, event text, number text);" +
    "CREATE TABLE IF NOT EXISTS agents (name text PRIMARY KEY, count int, last text)",
);
const DELIVER = {
  name: "deliver",
  text:
    "WITH stored AS (INSERT INTO deliveries VALUES ($1, $2, $3, $4)) " +
    "INSERT INTO agents VALUES ($2, 1, $1) " +
    "ON CONFLICT (name) DO UPDATE SET count = agents.count + 1, last = $1",
};

createServer((request, response) => {
  const chunks = [];
  request.on("data", (chunk) => chunks.push(chunk));
  request.on("end", async () => {
    if (request.method !== "POST") return response.end("ready");
    const body = Buffer.concat(chunks);
    const wanted = Buffer.from(
      `sha256=${createHmac("sha256", "topsecret").update(body).digest("hex")}`,
    );
    const given = Buffer.from(String(request.headers["x-hub-signature-256"]));
    if (wanted.length !== given.length || !timingSafeEqual(wanted, given)) {
      response.statusCode = 401;
      return response.end();
    }
    const event = JSON.parse(body.toString());
    const { "x-github-delivery": id, "x-github-event": type } = request.headers;
    const name = request.url.split("/").at(-1);
    try {
      await pool.query({ ...DELIVER, values: [id, name, type, event.number] });
    } catch (error) {
      console.error(String(error));
      response.statusCode = 500;
    }
    response.end("OK");
  });
}).listen(Number(port), "127.0.0.1", () => console.log("listening"));
