/**
 * Components that several views share: times, values, tables, differences, and actions that ask for
 * confirmation. Everything that comes from agents is text: React escapes it, and no view sets
 * markup.
 */
import { memo, useEffect, useId, useRef, useState, type ReactNode } from "react";
import type { Difference } from "../../core/history/agentDifferences.ts";
import { messageOf, type Asked } from "./hooks.ts";
import { agentPath, withQuery, type AgentName } from "./api.ts";

export const Time = ({ at }: { readonly at: string | number | undefined }) => {
  if (at === undefined) return <>–</>;
  const date = new Date(at);
  const iso = date.toISOString();
  return (
    <time dateTime={iso} title={iso}>
      {iso.slice(0, 10)} {iso.slice(11, 23)}
    </time>
  );
};

/** The units, with their milliseconds. A time shorter than two minutes is shown in seconds. */
const UNITS = [
  [86_400_000, "days"],
  [3_600_000, "h"],
  [60_000, "min"],
] as const;

/** How long something took. */
export function spanText(ms: number): string {
  if (ms < 1_000) return `${ms} ms`;
  for (const [unit, name] of UNITS)
    if (ms >= 2 * unit) return `${Math.round((ms / unit) * 10) / 10} ${name}`;
  return `${Math.round(ms / 100) / 10} s`;
}

export const Link = (props: {
  readonly to: string;
  readonly children: ReactNode;
  readonly current?: boolean;
}) => (
  <a href={`#/${props.to}`} aria-current={props.current === true ? "page" : undefined}>
    {props.children}
  </a>
);

export const AgentLink = ({ agent }: { readonly agent: AgentName }) => (
  <Link to={agentPath(agent)}>
    {agent.class}/{agent.name}
  </Link>
);

export const turnPath = (agent: AgentName, seq: number): string =>
  `${agentPath(agent)}/turns/${seq}`;
const whyPath = (agent: AgentName, path: string): string =>
  withQuery(`${agentPath(agent)}/why`, { path });

/** A value: a text as it is, but indented if it is JSON; everything else as JSON. */
export const Value = ({ value }: { readonly value: unknown }) => (
  <pre tabIndex={0}>
    {typeof value === "string" ? pretty(value) : JSON.stringify(value, undefined, 2)}
  </pre>
);

function pretty(text: string): string {
  if (!/^\s*[[{]/.test(text)) return text;
  try {
    return JSON.stringify(JSON.parse(text), undefined, 2);
  } catch {
    return text;
  }
}

export const short = (value: unknown): string =>
  value === undefined ? "unset" : (JSON.stringify(value) ?? "unset");

export interface TableRow {
  readonly key: string | number;
  readonly cells: ReadonlyArray<ReactNode>;
}

/** Not rendered again for the same array of cells, which a table of thousands of rows keeps. */
const Row = memo(({ cells }: { readonly cells: ReadonlyArray<ReactNode> }) => (
  <tr>
    {cells.map((cell, n) => (
      <td key={n}>{cell}</td>
    ))}
  </tr>
));

export const Table = (props: {
  readonly label: string;
  readonly columns: ReadonlyArray<string>;
  readonly rows: ReadonlyArray<TableRow>;
  readonly none?: string;
}) =>
  props.rows.length === 0 ? (
    <p className="quiet">{props.none ?? "None."}</p>
  ) : (
    <div className="wide" role="region" aria-label={props.label} tabIndex={0}>
      <table>
        <thead>
          <tr>
            {props.columns.map((column) => (
              <th key={column} scope="col">
                {column}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {props.rows.map(({ key, cells }) => (
            <Row key={key} cells={cells} />
          ))}
        </tbody>
      </table>
    </div>
  );

export const Differences = (props: {
  readonly agent: AgentName;
  readonly label: string;
  readonly list: ReadonlyArray<Difference>;
}) => (
  <Table
    label={props.label}
    columns={["What", "Before", "After"]}
    none="No differences."
    rows={props.list.map(({ path, before, after }) => ({
      key: path,
      cells: [
        path.startsWith("table:") && !path.includes("[") ? (
          <code>{path}</code>
        ) : (
          <a href={`#/${whyPath(props.agent, path)}`} title="Which turns wrote it">
            <code>{path}</code>
          </a>
        ),
        <code className="gone">{short(before)}</code>,
        <code className="new">{short(after)}</code>,
      ],
    }))}
  />
);

/** Shown while an answer is pending, and for an error. */
export const Answer = <A,>(props: {
  readonly of: Asked<A>;
  readonly children: (value: A) => ReactNode;
}) => {
  const { value, error, busy } = props.of;
  return (
    <>
      {error !== undefined && <Problem text={error} />}
      {value !== undefined ? props.children(value) : busy && <p className="quiet">Loading…</p>}
    </>
  );
};

export const Problem = ({ text }: { readonly text: string }) => (
  <p role="alert" className="problem">
    {text}
  </p>
);

const BAD = new Set(["refused", "unavailable", "failed", "dead", "differs", "fails", "errored"]);
const GOOD = new Set(["answered", "same", "complete", "done"]);
export const Status = ({ text }: { readonly text: string }) => (
  <span className={`status ${BAD.has(text) ? "bad" : GOOD.has(text) ? "good" : ""}`}>{text}</span>
);

/** A button that asks for confirmation, acts, and shows the result. */
export const Act = (props: {
  readonly label: string;
  /** What will happen, for the person who decides. */
  readonly question: string;
  readonly act: () => Promise<string>;
  readonly onDone?: () => void;
  readonly disabled?: boolean;
}) => {
  const dialog = useRef<HTMLDialogElement>(null);
  const [said, setSaid] = useState<{ readonly bad: boolean; readonly text: string }>();
  const [busy, setBusy] = useState(false);
  const id = useId();
  const run = async (): Promise<void> => {
    dialog.current?.close();
    setBusy(true);
    setSaid(undefined);
    try {
      setSaid({ bad: false, text: await props.act() });
      props.onDone?.();
    } catch (error) {
      setSaid({ bad: true, text: messageOf(error) });
    } finally {
      setBusy(false);
    }
  };
  return (
    <span className="act">
      <button
        disabled={busy || props.disabled === true}
        onClick={() => dialog.current?.showModal()}
      >
        {busy ? `${props.label} …` : props.label}
      </button>
      <dialog ref={dialog} aria-labelledby={id}>
        <p id={id}>{props.question}</p>
        <div className="row">
          <button onClick={() => void run()}>{props.label}</button>
          <button onClick={() => dialog.current?.close()}>Cancel</button>
        </div>
      </dialog>
      {said !== undefined && (
        <span role={said.bad ? "alert" : "status"} className={said.bad ? "problem" : "quiet"}>
          {said.text}
        </span>
      )}
    </span>
  );
};

/** A labelled field whose text the parent keeps. */
export const Field = (props: {
  readonly label: string;
  readonly value: string;
  readonly onChange: (value: string) => void;
  readonly placeholder?: string;
}) => {
  const id = useId();
  return (
    <span className="field">
      <label htmlFor={id}>{props.label}</label>
      <input
        id={id}
        value={props.value}
        placeholder={props.placeholder}
        autoComplete="off"
        spellCheck={false}
        onChange={(event) => props.onChange(event.target.value)}
      />
    </span>
  );
};

export const Choice = (props: {
  readonly label: string;
  readonly value: string;
  readonly values: ReadonlyArray<string>;
  readonly onChange: (value: string) => void;
}) => {
  const id = useId();
  return (
    <span className="field">
      <label htmlFor={id}>{props.label}</label>
      <select id={id} value={props.value} onChange={(event) => props.onChange(event.target.value)}>
        <option value="">any</option>
        {props.values.map((value) => (
          <option key={value}>{value}</option>
        ))}
      </select>
    </span>
  );
};

/** The view's heading. It sets the page's title, and takes the focus after a link was followed. */
export const Heading = ({
  text,
  children,
}: {
  readonly text: string;
  readonly children?: ReactNode;
}) => {
  const heading = useRef<HTMLHeadingElement>(null);
  useEffect(() => {
    document.title = `${text} · agents`;
    if (document.activeElement === document.body || document.activeElement?.closest("main, nav"))
      heading.current?.focus();
  }, [text]);
  return (
    <h1 ref={heading} tabIndex={-1}>
      {children ?? text}
    </h1>
  );
};
