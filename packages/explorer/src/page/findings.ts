/** What a finding says, with the lines that it names as buttons. */
import { h } from "./dom.ts";

/** The message; each `line 12` in it, of the other access, leads to that line of the PTX. */
export const said = (message: string, goto: (line: number) => void): readonly (HTMLElement | string)[] =>
  message.split(/\b(line \d+)\b/).map((word, i) => {
    if (i % 2 === 0) return word;
    const line = Number(word.slice("line ".length));
    return h("button", { type: "button", class: "link", onclick: () => goto(line) }, word);
  });
