/**
 * Dead letters, which are inputs that exhausted their attempts: views to read them, and to redrive
 * or drop one or several.
 */
import { useState } from "react";
import { counted } from "../../schemas/counted.ts";
import { act, ask } from "./api.ts";
import { useAsk, useNewsCount } from "./hooks.ts";
import { OnFork } from "./onFork.tsx";
import { Act, AgentLink, Answer, Heading, Link, Table, Time, Value } from "./parts.tsx";
import type { DeadLetterLine as Letter } from "../cli/commands/dead.ts";

/** The most that the console returns at once. */
const PAGE = 500;

export const DeadLetters = () => {
  const news = useNewsCount(({ overview }) => overview !== undefined);
  const found = useAsk<ReadonlyArray<Letter>>(`dead?limit=${PAGE}`, news);
  const [chosen, setChosen] = useState<ReadonlySet<number>>(new Set());
  return (
    <>
      <Heading text="Dead letters" />
      <Answer of={found}>
        {(letters) => {
          const ids = letters.map(({ id }) => id).filter((id) => chosen.has(id));
          const all = ids.length === letters.length;
          const each = async (what: "redrive" | "drop"): Promise<string> => {
            for (const id of ids) await act(`dead/${id}/${what}`);
            setChosen(new Set());
            return `${ids.length} ${what === "drop" ? "dropped" : "redriven"}.`;
          };
          return (
            <>
              {letters.length > 0 && (
                <div className="row">
                  <button
                    onClick={() => setChosen(new Set(all ? [] : letters.map(({ id }) => id)))}
                  >
                    {all ? "Select none" : `Select all ${letters.length}`}
                  </button>
                  <Act
                    label="Redrive"
                    disabled={ids.length === 0}
                    onDone={found.again}
                    question={`Redrive ${counted(ids.length, "dead letter")}? Each input runs again with all its attempts.`}
                    act={() => each("redrive")}
                  />
                  <Act
                    label="Drop"
                    disabled={ids.length === 0}
                    onDone={found.again}
                    question={`Drop ${counted(ids.length, "dead letter")}? They can't be restored.`}
                    act={() => each("drop")}
                  />
                </div>
              )}
              {letters.length > 0 && (
                <OnFork
                  path={`dead/${ids.join(",")}`}
                  count={ids.length}
                  label="Redrive"
                  one={(id) => act(`dead/${id}/redrive`)}
                  onDone={found.again}
                />
              )}
              <LetterTable letters={letters} chosen={chosen} choose={setChosen} />
              {letters.length >= PAGE && (
                <p className="quiet">
                  Only the oldest {PAGE} are shown. Redrive or drop some to see the next.
                </p>
              )}
            </>
          );
        }}
      </Answer>
    </>
  );
};

const LetterTable = (props: {
  readonly letters: ReadonlyArray<Letter>;
  readonly chosen: ReadonlySet<number>;
  readonly choose: (chosen: ReadonlySet<number>) => void;
}) => (
  <Table
    label="Dead letters"
    columns={["Selected", "Number", "Since", "Agent", "Input", "Error"]}
    none="No dead letters."
    rows={props.letters.map((letter) => ({
      key: letter.id,
      cells: [
        <input
          type="checkbox"
          aria-label={`Select dead letter ${letter.id}`}
          checked={props.chosen.has(letter.id)}
          onChange={({ target }) => {
            const next = new Set(props.chosen);
            if (target.checked) next.add(letter.id);
            else next.delete(letter.id);
            props.choose(next);
          }}
        />,
        <Link to={`dead/${letter.id}`}>{letter.id}</Link>,
        <Time at={letter.time} />,
        <AgentLink agent={letter} />,
        [letter.cause?.kind, letter.cause?.type].filter(Boolean).join(" "),
        letter.reason ?? letter.unreadable ?? "",
      ],
    }))}
  />
);

export const LetterView = ({ id }: { readonly id: string }) => {
  const found = useAsk<Letter>(`dead/${encodeURIComponent(id)}`);
  const number = Number(id);
  return (
    <>
      <Heading text={`Dead letter ${id}`} />
      <Answer of={found}>
        {(letter) => (
          <>
            <p>
              <AgentLink agent={letter} /> <Time at={letter.time} />
              {letter.cause?.delivery !== undefined && (
                <>
                  ,{" "}
                  <Link to={`deliveries/${encodeURIComponent(letter.cause.delivery)}`}>
                    its delivery
                  </Link>
                </>
              )}
            </p>
            <h2>Error</h2>
            <Value value={letter.reason ?? letter.unreadable ?? ""} />
            <div className="row">
              {letter.unreadable === undefined && (
                <Act
                  label="Redrive"
                  question={`Redrive dead letter ${id}? Its input runs again with all its attempts.`}
                  act={async () => {
                    await ask(`dead/${number}/redrive`, { method: "POST" });
                    return "Stored in the inbox again.";
                  }}
                />
              )}
              <Act
                label="Drop"
                question={`Drop dead letter ${id}? It can't be restored.`}
                act={async () => {
                  await ask(`dead/${number}/drop`, { method: "POST" });
                  return "Dropped.";
                }}
              />
            </div>
            {letter.unreadable === undefined && (
              <OnFork
                path={`dead/${number}`}
                count={1}
                label="Redrive"
                one={() => act(`dead/${number}/redrive`)}
              />
            )}
            <h2>Input</h2>
            <Value value={letter.cause} />
          </>
        )}
      </Answer>
    </>
  );
};
