import { KillRig } from "/work/main/test/step/KillRig.ts";
import { POINTS, UNDO_POINTS } from "/work/main/test/step/killModule.ts";
const rig = await KillRig.start();
try { for (let r = 1; r <= 6; r++) { const w = await rig.round(r, [...UNDO_POINTS, ...POINTS]); console.log(new Date().toISOString(), r, rig.kills, JSON.stringify(w)); } } finally { await rig.stop(); }
process.exit(0);
