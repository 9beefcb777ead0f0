/**
 * The view for a SELECT over all agents; and the form for SQL, which the view of an agent's tables
 * shares.
 */
import { useId, useState } from "react";
import { withQuery } from "./api.ts";
import { go, useAsk, type Place } from "./hooks.ts";
import { AgentLink, Answer, Heading, Problem, Table } from "./parts.tsx";

export type Row = Readonly<Record<string, unknown>>;

/** `kept`: names the typed text, which stays when the user returns. */
export const QueryForm = (props: {
  readonly kept: string;
  /** The statement in the address bar. */
  readonly asked: string;
  readonly examples: ReadonlyArray<{ readonly label: string; readonly sql: string }>;
  readonly run: (sql: string) => void;
}) => {
  const id = useId();
  const draftKey = `query ${props.kept}`;
  const [text, setText] = useState(() => sessionStorage.getItem(draftKey) ?? props.asked);
  const type = (typed: string): void => {
    setText(typed);
    sessionStorage.setItem(draftKey, typed);
  };
  return (
    <>
      <div className="row">
        {props.examples.map(({ label, sql }) => (
          <button
            key={label}
            onClick={() => {
              type(sql);
              props.run(sql);
            }}
          >
            {label}
          </button>
        ))}
      </div>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          props.run(text);
        }}
      >
        <label htmlFor={id}>Query</label>
        <textarea
          id={id}
          value={text}
          rows={3}
          spellCheck={false}
          placeholder="SELECT …"
          onChange={({ target }) => type(target.value)}
          onKeyDown={(event) => {
            if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) props.run(text);
          }}
        />
        <button>Run</button>{" "}
        <span className="quiet">Ctrl-Enter runs the query. It may only read.</span>
      </form>
    </>
  );
};

/** Fills some screens. */
const ROWS_SHOWN_MAX = 1_000;
/** With more, a browser takes seconds to lay them out. */
const CELLS_SHOWN_MAX = 20_000;
/** UTF-16 units of a cell; a state may have a megabyte. */
const CELL_SHOWN_MAX = 2_000;

const shown = (value: unknown): string => {
  const text = value === null ? "NULL" : String(value);
  return text.length <= CELL_SHOWN_MAX
    ? text
    : `${text.slice(0, CELL_SHOWN_MAX).toWellFormed()}… (${text.length.toLocaleString("en")} characters)`;
};

/** The first of many rows. A row with class and name links to its agent. */
export const Rows = ({ rows: all }: { readonly rows: ReadonlyArray<Row> }) => {
  const columns = Object.keys(all[0] ?? {});
  const rows = all.slice(
    0,
    Math.min(ROWS_SHOWN_MAX, Math.ceil(CELLS_SHOWN_MAX / (columns.length || 1))),
  );
  const isOfAgents = columns.includes("class") && columns.includes("name");
  const cell = (row: Row, column: string) =>
    isOfAgents && column === "name" ? (
      <AgentLink agent={{ class: String(row["class"]), name: String(row["name"]) }} />
    ) : (
      shown(row[column])
    );
  return (
    <>
      <Table
        label="Rows"
        columns={columns}
        none="No rows."
        rows={rows.map((row, n) => ({ key: n, cells: columns.map((column) => cell(row, column)) }))}
      />
      {rows.length < all.length && (
        <p className="quiet">
          Only the first {rows.length} of {all.length} rows are shown; agents query and agents sql
          print all.
        </p>
      )}
    </>
  );
};

const FAILING =
  "SELECT class, name, time, error FROM agents WHERE error IS NOT NULL ORDER BY time DESC LIMIT 100";

export const Query = ({ place }: { readonly place: Place }) => {
  const asked = place.query.get("sql") ?? "";
  const classes = useAsk<ReadonlyArray<Row>>("query");
  const rows = useAsk<ReadonlyArray<Row>>(
    asked === "" ? undefined : withQuery("query", { sql: asked }),
  );
  return (
    <>
      <Heading text="Query" />
      <p className="quiet">
        Each class is a table; <code>agents</code> contains all of them. Columns: name, state,
        schedules, seq, time, errors, error, fault, due, size. A field of the state:{" "}
        <code>state-&gt;&gt;'plan'</code>.
      </p>
      {classes.error !== undefined && <Problem text={classes.error} />}
      <QueryForm
        kept="all agents"
        asked={asked}
        run={(sql) => (sql === asked ? rows.again() : go(withQuery("query", { sql })))}
        examples={[
          { label: "Failing", sql: FAILING },
          ...(classes.value ?? []).map((row) => ({
            label: `${String(row["class"])} (${String(row["agents"])})`,
            sql: `SELECT class, name, time, state FROM agents WHERE class = '${String(row["class"])}' LIMIT 100`,
          })),
        ]}
      />
      {asked !== "" && <Answer of={rows}>{(list) => <Rows rows={list} />}</Answer>}
    </>
  );
};
