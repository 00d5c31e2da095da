/** From stage bound on nothing is left to decide. */

import { readsOf } from "../views.ts";
import { stagingCopies } from "./distributions.ts";
import { bufferAt, type Verifier } from "./verifier.ts";

export const complete: Verifier = {
  name: "complete",
  code: "TW3108",
  property:
    "a bound program has no nest and no directives; shared tiles have layouts, register tiles owners, copies distributions",
  from: "bound",
  *check(subject) {
    const { program } = subject;
    if (program.nest !== null)
      yield {
        at: "nest",
        message: `a nest at stage ${program.stage}`,
        hint: "remove it: ownership says the same",
      };
    for (const directive of program.directives)
      yield {
        at: `directive ${directive.name}`,
        message: `directive '${directive.name}' is left at stage ${program.stage}`,
        hint: "no pass took it; remove it, or start from an earlier stage",
      };
    for (const buffer of program.buffers) {
      if ((buffer.space === "shared" || buffer.space === "tensor") && buffer.layout === null)
        yield { at: buffer, message: "has no layout", hint: "write layout (ROWS,COLS):(STRIDE,STRIDE)" };
      if (buffer.space === "register" && buffer.own === null && stagingCopies(subject, buffer.name) === null)
        yield { at: buffer, message: "has no owner", hint: "write own rows(…) cols(…)" };
    }
    for (const site of subject.sites) {
      const { stmt } = site;
      // One thread issues a bulk copy, and one of scale factors.
      const single = stmt.kind === "copy" && (stmt.transport === "tma" || stmt.transport === "tcgen05.cp");
      if (stmt.kind === "copy" && stmt.dist === null && !single) {
        // What goes into shared memory its threads share out.
        const shared = bufferAt(subject, stmt.dst.buffer).space === "shared";
        const owned =
          !shared && [stmt.src, stmt.dst].some((view) => bufferAt(subject, view.buffer).own !== null);
        if (!owned)
          yield {
            at: site,
            message: "has neither a distribution nor an owned register tile",
            hint: "write dist(threads N, vector N, fastest rows|cols)",
          };
      }
      if (stmt.kind === "mma")
        for (const view of readsOf(stmt))
          if (bufferAt(subject, view.buffer).space === "global")
            yield {
              at: site,
              message: `multiplies %${view.buffer} straight from global memory`,
              hint: "copy it into a fragment first",
            };
    }
  },
};
