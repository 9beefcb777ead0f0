/**
 * The console's page: an application in the browser, whose views each have a place in the address
 * bar (`#/agents/…`). `package/page.ts` bundles it, and `services/console/page` serves it.
 */
import { StrictMode, useState } from "react";
import { createRoot } from "react-dom/client";
import { takeToken, useToken, withQuery } from "./api.ts";
import { AgentView } from "./agent.tsx";
import { Agents } from "./agents.tsx";
import { DeadLetters, LetterView } from "./dead.tsx";
import { Deliveries, DeliveryView } from "./deliveries.tsx";
import { NewsContext, useCurrentToken, useNewsStream, usePlace, type Place } from "./hooks.ts";
import { Overview } from "./overview.tsx";
import { Heading, Link } from "./parts.tsx";
import { Query } from "./query.tsx";

const VIEWS = [
  ["", "Overview"],
  ["deliveries", "Deliveries"],
  ["agents", "Agents"],
  ["query", "Query"],
  ["dead", "Dead letters"],
] as const;

const View = ({ place }: { readonly place: Place }) => {
  const [view, one, two] = place.parts;
  if (view === undefined) return <Overview />;
  if (view === "deliveries")
    return one === undefined ? <Deliveries place={place} /> : <DeliveryView key={one} id={one} />;
  if (view === "agents")
    return two === undefined ? <Agents place={place} /> : <AgentView place={place} />;
  if (view === "query") return <Query place={place} />;
  if (view === "dead")
    return one === undefined ? <DeadLetters /> : <LetterView key={one} id={one} />;
  return (
    <>
      <Heading text="Page not found" />
      <p>
        <Link to="">Overview</Link>
      </p>
    </>
  );
};

const Opened = () => {
  const place = usePlace();
  const [view, className, name, tab] = place.parts;
  // One agent's page subscribes to that agent only: others may be busy.
  const isOne = view === "agents" && name !== undefined;
  const { live, watch } = useNewsStream(
    withQuery("news", isOne ? { class: className, name, connections: tab === "connections" } : {}),
  );
  return (
    <NewsContext.Provider value={watch}>
      <a
        className="skip"
        href="#main"
        onClick={(event) => {
          event.preventDefault();
          document.querySelector("main")?.focus();
        }}
      >
        Skip to content
      </a>
      <header>
        <nav aria-label="Views">
          {VIEWS.map(([path, title]) => (
            <Link key={path} to={path} current={(view ?? "") === path}>
              {title}
            </Link>
          ))}
        </nav>
        <span role="status" className={live ? "quiet" : "bad"}>
          {live ? "live" : "not connected"}
        </span>
      </header>
      <main tabIndex={-1}>
        <View place={place} />
      </main>
    </NewsContext.Provider>
  );
};

const Enter = () => {
  const [text, setText] = useState("");
  return (
    <main>
      <h1>Agents</h1>
      <p>
        The console needs its token. Open the URL that <code>agents console</code> or{" "}
        <code>agents dev</code> printed, or enter the token.
      </p>
      <form
        className="row"
        onSubmit={(event) => {
          event.preventDefault();
          useToken(text.trim());
        }}
      >
        <label>
          The console's token{" "}
          <input
            type="password"
            autoComplete="off"
            value={text}
            onChange={({ target }) => setText(target.value)}
          />
        </label>
        <button>Open</button>
      </form>
    </main>
  );
};

const App = () => (useCurrentToken() === null ? <Enter /> : <Opened />);

takeToken();
addEventListener("hashchange", takeToken);
createRoot(document.getElementById("page")!).render(
  <StrictMode>
    <App />
  </StrictMode>,
);
