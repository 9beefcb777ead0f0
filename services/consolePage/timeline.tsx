/**
 * An agent's turns, newest first: new turns appear by themselves, older ones page by page. The
 * number of turns shown at once is limited, so that the page stays fast however long the timeline
 * is.
 */
import { useEffect, useMemo, useRef, useState } from "react";
import { agentPath, ask, withQuery, type AgentName } from "./api.ts";
import { messageOf, Rest, useNextPage } from "./hooks.ts";
import { Link, Problem, Table, Time, turnPath, type TableRow } from "./parts.tsx";
import type { HistoryLine as Line } from "../../core/journal/historyLines.ts";

export const KINDS = ["webhook", "request", "connect", "message", "close", "rpc", "queue", "schedule", "mail", "workflow", "start", "background", "claimed", "destroyed"]; // prettier-ignore
const PAGE = 100;
/** The most new turns that one request returns: the last ones; only `SHOWN_MAX` are shown. */
const NEWS_MAX = 5_000;
/** Some screens. With ten thousand rows, each page that is added takes a browser a second. */
const SHOWN_MAX = 1_000;

/** The newest `SHOWN_MAX` lines, and the others of the event that this limit would split. */
function newestOf(lines: ReadonlyArray<Line>): ReadonlyArray<Line> {
  let first = Math.max(0, lines.length - SHOWN_MAX);
  while (first > 0 && lines[first - 1]!.seq === lines[first]!.seq) first--;
  return lines.slice(first);
}

interface TimelineProps {
  readonly agent: AgentName;
  /** Grows when the agent has new turns. */
  readonly news: number;
  readonly filter: { readonly kind: string; readonly text: string; readonly failed: boolean };
}

export const Timeline = (props: TimelineProps) => {
  const { lines, isAll, isPast, error, problem, newest, older } = useTimeline(props);
  return (
    <>
      {problem !== undefined && <Problem text={problem} />}
      {isPast && <button onClick={newest}>Newest</button>}
      {lines === undefined ? (
        error === undefined && <p className="quiet">Loading…</p>
      ) : (
        <TurnTable agent={props.agent} lines={lines.toReversed()} />
      )}
      {lines?.[0] !== undefined && !isAll && <button onClick={older}>Older</button>}
    </>
  );
};

/**
 * The lines that are shown, oldest first: the newest while they are, else a page of the past. As in
 * `useAsk`, news do not abort a request, and the next one follows it.
 */
function useTimeline({ agent, news, filter }: TimelineProps) {
  const [lines, setLines] = useState<ReadonlyArray<Line>>();
  const [isAll, setIsAll] = useState(false);
  /** The newest turns are not shown any more. */
  const [isPast, setIsPast] = useState(false);
  const [error, setError] = useState<string>();
  const path = `${agentPath(agent)}/history`;
  const wanted = { ...filter, omit: "state,input" };
  const question = withQuery(path, { ...wanted, limit: PAGE });
  const shown = useRef<{ readonly question: string; readonly lines: ReadonlyArray<Line> }>(
    undefined,
  );
  const show = (next: ReadonlyArray<Line>): void => {
    shown.current = { question, lines: next };
    setLines(next);
  };
  useEffect(() => setIsPast(false), [question]);
  const [busy, setBusy] = useState(false);
  /** The news for which turns were requested last. */
  const [asked, setAsked] = useState(news);
  if (!busy && asked !== news) setAsked(news);
  const [rest] = useState(() => new Rest());
  useEffect(() => {
    if (isPast) return undefined;
    const ended = new AbortController();
    const begin = (): void => {
      const { current } = shown;
      const last = current?.question === question ? current.lines.at(-1)?.seq : undefined;
      const page =
        last === undefined
          ? question
          : withQuery(path, { ...wanted, from: last + 1, limit: NEWS_MAX });
      setBusy(true);
      const startMs = performance.now();
      const request = ask<ReadonlyArray<Line>>(page, { signal: ended.signal }).then(
        (found) => {
          // An older page may have arrived meanwhile and replaced the newest turns.
          const now = last === undefined ? [] : (shown.current?.lines ?? []);
          if (ended.signal.aborted || now.at(-1)?.seq !== last) return;
          setError(undefined);
          if (last === undefined) setIsAll(found.length < PAGE);
          const known = [...now, ...found];
          if (known.length > SHOWN_MAX) setIsAll(false);
          show(newestOf(known));
        },
        (wrong: unknown) => {
          if (!ended.signal.aborted) setError(messageOf(wrong));
        },
      );
      void request.finally(() => {
        if (ended.signal.aborted) return;
        rest.answered(question, asked, startMs);
        setBusy(false);
      });
    };
    const timer = setTimeout(begin, rest.waitMs(question, asked));
    return () => {
      clearTimeout(timer);
      ended.abort();
    };
  }, [question, asked, isPast]);
  const older = useNextPage<ReadonlyArray<Line>>(question, (found) => {
    if (shown.current?.question !== question) return;
    setIsAll(found.length < PAGE);
    const next = [...found, ...shown.current.lines];
    const shownMax = Math.max(SHOWN_MAX, found.length);
    if (next.length > shownMax) setIsPast(true);
    show(next.slice(0, shownMax));
  });
  return {
    lines,
    isAll,
    isPast,
    /** Why the newest turns can't be read. */
    error,
    problem: error ?? older.error,
    newest: () => {
      shown.current = undefined;
      setIsPast(false);
    },
    older: () =>
      void older.next(withQuery(path, { ...wanted, to: lines![0]!.seq - 1, limit: PAGE })),
  };
}

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

/** Several turns can have one sequence. The key stays when older or newer turns are added. */
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
        {dead ? "dead letter: " : ""}
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
