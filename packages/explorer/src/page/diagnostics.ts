/** Diagnostics as a list: code, place, message, what would work. */
import type { Diagnostic } from "@tilewright/core";
import { fill, h } from "./dom.ts";

const mostShown = 12;

/** Hints often quote schedule text that can be taken as it is. */
const scheduleIn = (hint: string): string | null => /nearest legal schedule: (.+)$/.exec(hint)?.[1] ?? null;

export function showDiagnostics(
  list: HTMLElement,
  found: readonly Diagnostic[],
  act: { readonly goto?: (line: number) => void; readonly schedule?: (text: string) => void } = {},
): void {
  const shown = found.slice(0, mostShown);
  fill(
    list,
    shown.map(({ code, at, message, hint, location }) => {
      const schedule = hint === undefined ? null : scheduleIn(hint);
      return h(
        "li",
        {},
        h("code", {}, code),
        " ",
        location !== undefined && act.goto !== undefined
          ? h(
              "button",
              { type: "button", class: "link", onclick: () => act.goto?.(location.line) },
              `line ${location.line}`,
            )
          : h("span", { class: "at" }, at),
        ` ${message}`,
        hint === undefined ? null : h("span", { class: "hint" }, ` ${hint}`),
        schedule === null || act.schedule === undefined
          ? null
          : h(
              "button",
              { type: "button", class: "small", onclick: () => act.schedule?.(schedule) },
              "take it",
            ),
      );
    }),
    found.length > mostShown ? h("li", {}, `and ${found.length - mostShown} more`) : null,
  );
  list.hidden = found.length === 0;
}
