/**
 * An agent's turns, newest first: new ones come by themselves, older ones by the page. So many are
 * shown at once that a page stays quick, however long the timeline is.
 */
import { useEffect, useMemo, useRef, useState } from "react";
import { agentPath, ask, withQuery, type AgentName } from "./api.ts";
import { messageOf } from "./hooks.ts";
import { Link, Problem, Table, Time, turnPath, type TableRow } from "./parts.tsx";

export interface Cause {
  readonly kind: string;
  readonly id?: string;
  readonly provider?: string;
  readonly type?: string;
  readonly time?: number;
  readonly attempt?: number;
  readonly delivery?: string;
  readonly traceparent?: string;
  readonly method?: string;
  readonly url?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string;
  readonly bodyBase64?: string;
}

export interface Line {
  readonly seq: number;
  readonly time: string;
  readonly cause: Cause;
  readonly state?: unknown;
  readonly sql?: ReadonlyArray<string>;
  readonly schedules?: unknown;
  readonly queue?: unknown;
  readonly error?: string;
  readonly dead?: true;
}

export const KINDS = ["webhook", "request", "connect", "message", "close", "rpc", "queue", "schedule", "mail", "workflow", "start", "background", "claimed", "destroyed"]; // prettier-ignore
const PAGE = 100;
/** Some screens. With ten thousand rows, each page that is added takes a browser a second. */
const SHOWN_MAX = 1_000;

/** A full page may begin in the midst of an event: its turns come with the next page, together. */
function wholeEvents(page: ReadonlyArray<Line>): ReadonlyArray<Line> {
  if (page.length < PAGE) return page;
  const whole = page.filter(({ seq }) => seq !== page[0]!.seq);
  return whole.length === 0 ? page : whole;
}

export const Timeline = (props: {
  readonly agent: AgentName;
  /** Grows when the agent has new turns. */
  readonly news: number;
  readonly filter: { readonly kind: string; readonly text: string; readonly failed: boolean };
}) => {
  const { agent, news, filter } = props;
  const [lines, setLines] = useState<ReadonlyArray<Line>>();
  const [isAll, setIsAll] = useState(false);
  /** The newest turns are not shown any more. */
  const [isPast, setIsPast] = useState(false);
  const [error, setError] = useState<string>();
  const question = withQuery(`${agentPath(agent)}/history`, { ...filter, limit: PAGE });
  const shown = useRef<{ readonly question: string; readonly lines: ReadonlyArray<Line> }>(
    undefined,
  );
  const show = (next: ReadonlyArray<Line>): void => {
    shown.current = { question, lines: next };
    setLines(next);
  };
  useEffect(() => setIsPast(false), [question]);
  useEffect(() => {
    if (isPast) return undefined;
    const ended = new AbortController();
    const before = shown.current?.question === question ? shown.current.lines : undefined;
    const last = before?.at(-1)?.seq;
    const path = last === undefined ? question : withQuery(question.split("?")[0]!, { ...filter, from: last + 1, limit: 5_000 }); // prettier-ignore
    ask<ReadonlyArray<Line>>(path, { signal: ended.signal }).then(
      (found) => {
        setError(undefined);
        if (before === undefined) setIsAll(found.length < PAGE);
        const next = before === undefined ? wholeEvents(found) : [...before, ...found];
        if (next.length > SHOWN_MAX) setIsAll(false);
        show(next.slice(-SHOWN_MAX));
      },
      (wrong: unknown) => {
        if (!ended.signal.aborted) setError(messageOf(wrong));
      },
    );
    return () => ended.abort();
  }, [question, news, isPast]);
  const older = async (): Promise<void> => {
    const first = lines?.[0]?.seq;
    if (first === undefined || first <= 1) return;
    try {
      const found = await ask<ReadonlyArray<Line>>(withQuery(question.split("?")[0]!, { ...filter, to: first - 1, limit: PAGE })); // prettier-ignore
      setIsAll(found.length < PAGE);
      const next = [...wholeEvents(found), ...(shown.current?.lines ?? [])];
      if (next.length > SHOWN_MAX) setIsPast(true);
      show(next.slice(0, SHOWN_MAX));
    } catch (wrong) {
      setError(messageOf(wrong));
    }
  };
  return (
    <>
      {error !== undefined && <Problem text={error} />}
      {isPast && (
        <button
          onClick={() => {
            shown.current = undefined;
            setIsPast(false);
          }}
        >
          Newest
        </button>
      )}
      {lines === undefined ? (
        error === undefined && <p className="quiet">Loading…</p>
      ) : (
        <TurnTable agent={agent} lines={lines.toReversed()} />
      )}
      {lines !== undefined && lines.length > 0 && !isAll && (
        <button onClick={() => void older()}>Older</button>
      )}
    </>
  );
};

const TurnTable = ({
  agent,
  lines,
}: {
  readonly agent: AgentName;
  readonly lines: ReadonlyArray<Line>;
}) => {
  // Cells of a turn are made once: `Table` draws only rows that are new.
  const drawn = useMemo(() => new WeakMap<Line, TableRow["cells"]>(), [agentPath(agent)]);
  const cellsOf = (line: Line): TableRow["cells"] => {
    let cells = drawn.get(line);
    if (cells === undefined) drawn.set(line, (cells = turnCells(agent, line)));
    return cells;
  };
  return (
    <Table
      label="Turns"
      columns={["Turn", "When", "Cause", "Changed", "Error", "Delivery"]}
      none="No turns."
      rows={lines.map((line, n) => ({ key: keyOf(lines, n), cells: cellsOf(line) }))}
    />
  );
};

/** Several turns can have one sequence. It stays when older or newer turns are shown, too. */
function keyOf(lines: ReadonlyArray<Line>, n: number): string {
  const { seq } = lines[n]!;
  let later = 0;
  while (lines[n - later - 1]?.seq === seq) later++;
  return `${seq} ${later}`;
}

const turnCells = (agent: AgentName, line: Line): TableRow["cells"] => {
  const { seq, time, cause, error, dead } = line;
  return [
    <Link to={turnPath(agent, seq)}>{seq}</Link>,
    <Time at={time} />,
    [
      cause.kind,
      cause.provider,
      cause.type,
      cause.attempt === undefined ? "" : `attempt ${cause.attempt}`,
    ]
      .filter(Boolean)
      .join(" "),
    [
      line.state !== undefined && "state",
      line.sql && "rows",
      line.schedules && "schedules",
      line.queue && "queue",
    ]
      .filter(Boolean)
      .join(", "),
    error === undefined && dead === undefined ? (
      ""
    ) : (
      <span className="bad">
        {dead ? "dead: " : ""}
        {error}
      </span>
    ),
    cause.delivery === undefined ? (
      ""
    ) : (
      <Link to={`deliveries/${encodeURIComponent(cause.delivery)}`}>{cause.delivery}</Link>
    ),
  ];
};
