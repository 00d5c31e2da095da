/** Machine code beside the PTX, where the page's server can disassemble (`tilewright explore` with ptxas and nvdisasm). */
import { fill, h } from "./dom.ts";
import { Editor } from "./editor.ts";
import type { Session } from "./session.ts";

interface SassLine {
  readonly text: string;
  readonly address: number | null;
  /** Line of the PTX, from 1; 0 for none. */
  readonly ptx: number;
}

type Reply =
  | { readonly lines: readonly SassLine[] }
  | { readonly diagnostics: readonly { readonly code: string; readonly message: string }[] };

/** How long an edit rests before its machine code is made. Milliseconds. */
const rest = 300;

/** Whether the server offers it: a static site does not. */
export const offersSass = (): boolean => document.querySelector('meta[name="sass"]') !== null;

export class SassColumn {
  readonly root = h("section", { class: "sass", "aria-label": "SASS" });
  readonly #session: Session;
  readonly #said = h("p", { class: "hint", "aria-live": "polite" });
  readonly #editor: Editor;
  readonly #done: () => void;
  #lines: readonly SassLine[] = [];
  #shown: unknown = null;
  #timer: ReturnType<typeof setTimeout> | undefined;

  /** `moved`: the cursor has come to an instruction made for this line of PTX; `done`: there is new machine code. */
  constructor(session: Session, moved: (ptx: number) => void, done: () => void) {
    this.#session = session;
    this.#done = done;
    const box = h("div", { class: "editor" });
    fill(this.root, h("div", { class: "bar" }, h("h2", {}, "SASS")), this.#said, box);
    this.#editor = new Editor({
      parent: box,
      language: "sass",
      label: "Machine code of the kernel",
      editable: false,
      moved: (line) => moved(this.#lines[line - 1]?.ptx ?? 0),
    });
    session.listen((_, what) => {
      if (what !== "compiled" || session.kernel === this.#shown) return;
      clearTimeout(this.#timer);
      this.#timer = setTimeout(() => void this.#make(), rest);
    });
  }

  async #make(): Promise<void> {
    const { kernel, state } = this.#session;
    if (kernel === null) return;
    this.#shown = kernel;
    this.#said.textContent = "ptxas is at work …";
    const reply = await ask(kernel.ptx, state.arch);
    if (this.#session.kernel !== kernel) return;
    this.#lines = "lines" in reply ? reply.lines : [];
    const count = this.#lines.filter(({ address }) => address !== null).length;
    this.#said.textContent =
      "lines" in reply
        ? `${count} instructions`
        : reply.diagnostics.map(({ code, message }) => `${code}: ${message}`).join("; ");
    this.#editor.show(
      this.#lines
        .map(({ text, address }) =>
          address === null ? text : `${address.toString(16).padStart(5, "0")}  ${text}`,
        )
        .join("\n"),
    );
    this.#done();
  }

  /** Mark the instructions of these lines of PTX. */
  link(ptx: readonly number[], reveal = true): void {
    const wanted = new Set(ptx);
    this.#editor.link(
      this.#lines.flatMap((line, i) => (line.ptx > 0 && wanted.has(line.ptx) ? [i + 1] : [])),
      reveal,
    );
  }

  /** Machine instructions of these lines of PTX. */
  count(ptx: readonly number[]): number {
    const wanted = new Set(ptx);
    return this.#lines.filter((line) => line.address !== null && wanted.has(line.ptx)).length;
  }
}

async function ask(ptx: string, arch: string): Promise<Reply> {
  try {
    const response = await fetch("sass", { method: "POST", body: JSON.stringify({ ptx, arch }) });
    if (response.ok) return (await response.json()) as Reply;
    return { diagnostics: [{ code: "HTTP", message: `${response.status} ${await response.text()}` }] };
  } catch (failure) {
    return { diagnostics: [{ code: "HTTP", message: String(failure) }] };
  }
}
