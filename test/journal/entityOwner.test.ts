/** The entity for which an agent was created, in its events, snapshots, and earlier formats. */
import { describe, expect, it } from "vitest";
import { transplant } from "../../core/journal/transplant.ts";
import { AgentImage } from "../../core/journal/AgentImage.ts";
import { applyEvent } from "../../core/journal/applyEvent.ts";
import { agentId, type AgentId, type Epoch, type Sequence } from "../../schemas/Address.ts";
import { decodeEvent, encodeEvent, type JournalHead } from "../../schemas/JournalEvent.ts";
import { decodeSnapshot } from "../../schemas/Snapshot.ts";

const ID = agentId("Repo", "ac-me-site");
let seq = 0;

const event = (entity?: string, kind: JournalHead["kind"] = "turns"): JournalHead => ({
  id: `event-${++seq}`,
  agent: [ID.class, ID.name],
  kind,
  host: "h",
  epoch: 1,
  time: seq,
  turns: [{ cause: { kind: "webhook", id: `k${seq}`, ...(entity === undefined ? {} : { entity }) } }],
}); // prettier-ignore

function imageOf(id: AgentId, ...heads: ReadonlyArray<JournalHead>): AgentImage {
  const image = new AgentImage(id);
  for (const [i, head] of heads.entries()) applyEvent(image, (i + 1) as Sequence, head);
  return image;
}

describe("an agent's entity", () => {
  it("is the one of the first event that has one, whatever comes later", () => {
    expect(imageOf(ID, event()).entity).toBeUndefined();
    expect(imageOf(ID, event(), event("Ac-me/Site"), event("ac/me-site")).entity).toBe(
      "Ac-me/Site",
    );
  });

  it("is cleared when the agent ends, also by the input that ends it", () => {
    const image = imageOf(ID, event("ac-me/site"), event("ac-me/site", "destroyed"));
    expect(image.entity).toBeUndefined();
    applyEvent(image, 3 as Sequence, event("ac/me-site"));
    expect(image.entity).toBe("ac/me-site");
  });

  it("is kept in a snapshot; an earlier release's snapshot has none", () => {
    const again = (image: AgentImage) =>
      AgentImage.fromSnapshot(ID, decodeSnapshot(image.encode(new Uint8Array(0))).head).entity;
    expect(again(imageOf(ID, event("ac-me/site")))).toBe("ac-me/site");
    expect(again(imageOf(ID, event()))).toBeUndefined();
    expect(decodeSnapshot(imageOf(ID, event()).encode()).head).not.toHaveProperty("entity");
  });

  it("is kept by a copy under the same name, and dropped under another", () => {
    const moved = (id: AgentId): JournalHead =>
      decodeEvent(transplant(encodeEvent(event("ac-me/site")), { id, epoch: 0 as Epoch })).head;
    expect(imageOf(ID, moved(ID)).entity).toBe("ac-me/site");
    const copy = agentId("Repo", "co-py");
    const fork = imageOf(copy, moved(copy));
    expect(fork.entity).toBeUndefined();
    applyEvent(fork, 2 as Sequence, { ...event("co/py"), agent: [copy.class, copy.name] });
    expect(fork.entity).toBe("co/py");
  });
});
