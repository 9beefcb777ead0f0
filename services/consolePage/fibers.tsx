/** An agent's fibers at a point of its history, or now: what runs, what each stashed, its steps. */
import { agentPath, withQuery } from "./api.ts";
import { useAsk, type Place } from "./hooks.ts";
import { Answer, Link, Status, Table, Time } from "./parts.tsx";
import { AtField, type Part } from "./points.tsx";
import type { FiberPage, ListedFiber } from "../../core/fiber/listFibers.ts";

/** Fills some screens. */
const PAGE = 100;

export const FibersTab = ({ agent, place, news }: Part & { readonly place: Place }) => {
  const at = place.query.get("at") ?? undefined;
  const skip = Number(place.query.get("skip") ?? 0) || 0;
  const path = `${agentPath(agent)}/fibers`;
  const found = useAsk<FiberPage>(
    withQuery(path, { at, skip: skip || undefined, limit: PAGE }),
    at === undefined ? news : 0,
  );
  return (
    <>
      <AtField key={at} agent={agent} place={place} part="fibers" />
      <Answer of={found}>
        {({ fibers, total }) => (
          <>
            <Table
              label="Fibers"
              columns={["Fiber", "Status", "Created", "Ended", "Stashed", "Steps", "Error"]}
              none="No fibers."
              rows={fibers.map((fiber) => ({ key: fiber.id, cells: cellsOf(fiber) }))}
            />
            <nav aria-label="Pages of fibers">
              {skip > 0 && <Link to={withQuery(path, { at })}>Newest fibers</Link>}
              {skip + fibers.length < total && (
                <Link to={withQuery(path, { at, skip: skip + PAGE })}>Older fibers</Link>
              )}
            </nav>
          </>
        )}
      </Answer>
    </>
  );
};

const cellsOf = (fiber: ListedFiber) => [
  <>
    {fiber.name} <small>{fiber.id}</small>
  </>,
  <>
    <Status text={fiber.status} />
    {fiber.owed && fiber.status === "interrupted" && ", to be recovered"}
    {fiber.failures > 0 && <>, {fiber.failures} failed recoveries</>}
  </>,
  <Time at={fiber.created} />,
  <Time at={fiber.settled} />,
  fiber.stashed === undefined ? (
    ""
  ) : (
    <>
      <code>{fiber.stashed}</code>
      {fiber.stashedChars !== undefined && <small> … ({fiber.stashedChars} characters)</small>}
    </>
  ),
  <Steps fiber={fiber} />,
  <span className="bad">{fiber.error ?? fiber.undoing ?? ""}</span>,
];

const Steps = ({ fiber: { steps, stepsDone } }: { readonly fiber: ListedFiber }) => (
  <>
    {steps.map(({ name, isUndone }) => (isUndone ? `${name} (undone)` : name)).join(", ")}
    {stepsDone > steps.length && <> and {stepsDone - steps.length} more</>}
  </>
);
