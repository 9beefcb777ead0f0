/** The delivery log: the requests that came to webhook routes, and all that is known of each. */
import { useState } from "react";
import { act, withQuery } from "./api.ts";
import { goQuietly, useAsk, useNewsCount, useRested, type Place } from "./hooks.ts";
import { OnFork } from "./onFork.tsx";
import {
  Act,
  AgentLink,
  Answer,
  Choice,
  Field,
  Heading,
  Link,
  Status,
  Table,
  Time,
  turnPath,
  Value,
} from "./parts.tsx";
import type { DeliveryRecord } from "../../schemas/DeliveryRecord.ts";
import type { Cause } from "../../schemas/JournalEvent.ts";

/** A record, and the request as the journal has it. */
export type Delivery = DeliveryRecord & { readonly input?: Input };

type Input = Pick<Cause, "method" | "url" | "headers" | "body" | "bodyBase64">;

const STATUSES = ["refused", "unavailable", "handshake", "filtered", "stored", "failed", "answered", "duplicate", "dead"]; // prettier-ignore
const PAGE = 100;

const agentOf = ({ agent }: Delivery) =>
  agent === undefined ? undefined : { class: agent[0], name: agent[1] };

export const Deliveries = ({ place }: { readonly place: Place }) => {
  const given = (name: string): string => place.query.get(name) ?? "";
  const filter = { status: given("status"), route: given("route"), agent: given("agent"), since: given("since") }; // prettier-ignore
  const limit = Number(given("limit")) || PAGE;
  const set = (change: Partial<typeof filter & { limit: number }>): void =>
    goQuietly(withQuery("deliveries", { ...filter, ...change }));
  const news = useNewsCount(({ deliveries }) => deliveries !== undefined);
  const found = useAsk<ReadonlyArray<Delivery>>(
    useRested(withQuery("deliveries", { ...filter, limit })),
    news,
  );
  return (
    <>
      <Heading text="Deliveries" />
      <form className="row" role="search" onSubmit={(event) => event.preventDefault()}>
        <Choice
          label="Status"
          value={filter.status}
          values={STATUSES}
          onChange={(status) => set({ status })}
        />
        <Field
          label="Route"
          value={filter.route}
          placeholder="/webhooks/github"
          onChange={(route) => set({ route })}
        />
        <Field
          label="Class or class/name"
          value={filter.agent}
          onChange={(agent) => set({ agent })}
        />
        <Field
          label="Since"
          value={filter.since}
          placeholder="15m, 2h, or a time"
          onChange={(since) => set({ since })}
        />
      </form>
      <Answer of={found}>
        {(list) => (
          <>
            <DeliveryTable list={list} />
            {list.length >= limit && limit < 500 && (
              <button onClick={() => set({ limit: 500 })}>More</button>
            )}
            {list.length >= 500 && (
              <p className="quiet">
                Only the newest 500 are shown. Use the filters to find others.
              </p>
            )}
          </>
        )}
      </Answer>
    </>
  );
};

const DeliveryTable = ({ list }: { readonly list: ReadonlyArray<Delivery> }) => (
  <Table
    label="Deliveries"
    columns={["Arrived", "Status", "HTTP", "ms", "Route", "Agent", "Type", "Delivery"]}
    none="No deliveries."
    rows={list.map((one) => {
      const agent = agentOf(one);
      return {
        key: one.id,
        cells: [
          <Time at={one.time ?? one.at} />,
          <Status text={one.status} />,
          one.http ?? "",
          one.ms === undefined ? "" : one.ms.toFixed(1),
          one.route ?? "",
          agent === undefined ? "" : <AgentLink agent={agent} />,
          one.type ?? one.why ?? "",
          <Link to={`deliveries/${encodeURIComponent(one.id)}`}>{one.id}</Link>,
        ],
      };
    })}
  />
);

export const DeliveryView = ({ id }: { readonly id: string }) => {
  const news = useNewsCount(({ deliveries }) => deliveries !== undefined);
  const found = useAsk<ReadonlyArray<Delivery>>(`deliveries/${encodeURIComponent(id)}`, news);
  return (
    <>
      <Heading text={`Delivery ${id}`} />
      <Answer of={found}>
        {(records) =>
          records.map((record) => (
            <OneDelivery key={record.id} record={record} onDone={found.again} />
          ))
        }
      </Answer>
    </>
  );
};

interface OneDeliveryProps {
  readonly record: Delivery;
  readonly onDone: () => void;
}

const OneDelivery = ({ record, onDone }: OneDeliveryProps) => {
  const facts: ReadonlyArray<readonly [string, unknown]> = [
    ["provider", record.provider], ["type", record.type], ["from", record.from], ["bytes", record.bytes],
    ["answer", record.http], ["milliseconds", record.ms?.toFixed(1)], ["attempt", record.attempt], ["maximum attempts", record.attempts],
    ["reason", record.why], ["error", record.error], ["redelivery of", record.of], ["trace", record.trace],
  ]; // prettier-ignore
  return (
    <article>
      <DeliveryHead record={record} />
      <dl>
        {facts.map(([name, value]) =>
          value === undefined ? null : (
            <div key={name}>
              <dt>{name}</dt>
              <dd>{String(value)}</dd>
            </div>
          ),
        )}
      </dl>
      {record.input === undefined ? (
        <p className="quiet">
          The request is not stored: it was refused, or its event was trimmed.
        </p>
      ) : (
        <>
          <Request input={record.input} />
          <Redeliver record={record} onDone={onDone} />
        </>
      )}
    </article>
  );
};

const DeliveryHead = ({ record }: { readonly record: Delivery }) => {
  const agent = agentOf(record);
  return (
    <>
      <h2>
        <Status text={record.status} /> {record.method ?? "POST"} {record.route ?? ""}{" "}
        <small>{record.id}</small>
      </h2>
      <p>
        <Time at={record.time ?? record.at} />
        {agent !== undefined && (
          <>
            {" "}
            → <AgentLink agent={agent} />
          </>
        )}
        {agent !== undefined && record.seq !== undefined && (
          <>
            , <Link to={turnPath(agent, record.seq)}>turn {record.seq} and its effects</Link>
          </>
        )}
        {agent !== undefined && record.duplicateOf !== undefined && (
          <>
            ,{" "}
            <Link to={turnPath(agent, record.duplicateOf)}>
              duplicate of turn {record.duplicateOf}
            </Link>
          </>
        )}
      </p>
    </>
  );
};

const Redeliver = ({ record, onDone }: OneDeliveryProps) => {
  const [to, setTo] = useState("");
  return (
    <>
      <div className="row">
        <Field
          label="Another agent of the class, such as a fork (optional)"
          value={to}
          onChange={setTo}
        />
        <Act
          label="Redeliver"
          question={`Redeliver ${record.id} to ${to === "" ? "its agent" : to}? Its effects are applied again.`}
          onDone={onDone}
          act={async () => {
            const sent = await act<ReadonlyArray<{ readonly id: string }>>(
              withQuery(`deliveries/${encodeURIComponent(record.id)}/redeliver`, { to }),
            );
            return `Redelivered as ${sent.map(({ id }) => id).join(", ")}.`;
          }}
        />
      </div>
      <OnFork
        path={`deliveries/${encodeURIComponent(record.id)}`}
        count={1}
        label="Redeliver"
        one={(id) => act(`deliveries/${encodeURIComponent(id)}/redeliver`)}
        onDone={onDone}
      />
    </>
  );
};

export const Request = ({ input }: { readonly input: Input }) => (
  <>
    <h3>Original request</h3>
    {input.url !== undefined && (
      <p>
        <code>
          {input.method ?? "POST"} {input.url}
        </code>
      </p>
    )}
    <Table
      label="Headers"
      columns={["Header", "Value"]}
      none="No headers are stored."
      rows={Object.entries(input.headers ?? {}).map(([name, value]) => ({
        key: name,
        cells: [name, value],
      }))}
    />
    {input.body !== undefined && <Value value={input.body} />}
    {input.bodyBase64 !== undefined && <Value value={`(base64) ${input.bodyBase64}`} />}
  </>
);
