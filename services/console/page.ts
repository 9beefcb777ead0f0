/**
 * The console's page: one document with its style and script, without a framework and without
 * external resources. It is served to everybody and holds no data. Everything that comes from
 * agents is set as text, never as markup.
 */
import { script } from "./pageScript.ts";

const STYLE = `
:root { color-scheme: light dark; font: 14px/1.45 system-ui, sans-serif; }
* { box-sizing: border-box; }
body { margin: 0; display: grid; grid-template: auto 1fr / 18rem 26rem 1fr; height: 100vh; }
header { grid-column: 1 / -1; padding: .5rem 1rem; border-bottom: 1px solid #8886; display: flex; gap: 1rem; align-items: baseline; }
h1 { font-size: 1rem; margin: 0; } h2 { font-size: .9rem; margin: 1rem 0 .3rem; }
section { overflow: auto; padding: .5rem 1rem; border-right: 1px solid #8883; }
ol, ul { list-style: none; margin: 0; padding: 0; }
button { font: inherit; color: inherit; background: none; border: 0; padding: .25rem .4rem; text-align: left; cursor: pointer; border-radius: .3rem; width: 100%; }
button:hover { background: #8882; } button[aria-current=true] { background: #48f4; }
button.act { width: auto; border: 1px solid #8886; }
input, textarea { font: inherit; width: 100%; padding: .25rem .4rem; margin-bottom: .4rem; }
small { opacity: .7; display: block; overflow: hidden; text-overflow: ellipsis; white-space: nowrap; }
pre { white-space: pre-wrap; overflow-wrap: anywhere; margin: 0; font: 12px/1.4 ui-monospace, monospace; }
table { border-collapse: collapse; font-size: 12px; } td, th { border: 1px solid #8884; padding: .15rem .4rem; text-align: left; }
[hidden] { display: none !important; }
#enter { grid-column: 1 / -1; border: 0; max-width: 32rem; }
.bad { color: #c33; } .changed { background: #fd02; } #status { margin-left: auto; }
`;

/** `nonce` is the nonce of the response's content security policy. */
export const page = (nonce: string): string => `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>Agents</title>
<style nonce="${nonce}">${STYLE}</style>
</head>
<body>
<header><h1>Agents</h1><span id="hosts"></span><span id="status" role="status"></span></header>
<section id="enter" aria-label="Token" hidden>
  <p>The console wants its token: open the URL that <code>agents console</code> printed, or enter it.</p>
  <input id="token" type="password" autocomplete="off" placeholder="token" aria-label="The console's token">
  <button id="open" class="act">Open</button>
</section>
<section class="data" aria-label="Agents">
  <input id="class" placeholder="class" aria-label="Class">
  <input id="prefix" placeholder="name begins with" aria-label="Name begins with">
  <ul id="agents"></ul>
  <div id="aside" hidden>
  <h2>Quarantined</h2>
  <ul id="quarantined"></ul>
  </div>
  <h2>Dead letters</h2>
  <ul id="dead"></ul>
</section>
<section class="data" aria-label="Turns">
  <input id="field" placeholder="only turns that changed this field, e.g. pr.title" aria-label="Field">
  <ol id="turns"></ol>
</section>
<section class="data" aria-label="At this turn">
  <h2 id="where">Choose an agent</h2>
  <div id="at"></div>
</section>
<script nonce="${nonce}">${script}</script>
</body>
</html>
`;
