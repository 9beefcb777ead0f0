/** A page of React on our hook, as an author would write it; `tabs.test.ts` bundles it. */
import { createElement } from "react";
import { createRoot } from "react-dom/client";
import { useAgent } from "../../services/react/index.ts";

const query = location.search.includes("readonly") ? { readonly: "1" } : {};

function Note() {
  const note = useAgent<{ text: string }>({ agent: "NoteAgent", name: "hooked", query });
  (globalThis as { note?: unknown }).note = note;
  return createElement(
    "output",
    { id: "text", "data-ready": note.identified && note.state !== undefined ? "yes" : "no" },
    note.state?.text ?? "",
  );
}

const root = document.getElementById("root");
if (root === null) throw new Error("the page has no #root");
createRoot(root).render(createElement(Note));
