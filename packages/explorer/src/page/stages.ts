/** Every step of a kernel's path: the text after each pass with what it changed, the PTX beside it, all of it editable. */
import { type StatementCounts, statementCounts } from "../model/counts.ts";
import { plants, without } from "../model/faults.ts";
import type { Kernel, Step } from "../worker/compiling.ts";
import { showDiagnostics } from "./diagnostics.ts";
import { fill, h, spent } from "./dom.ts";
import { Editor } from "./editor.ts";
import { offersSass, SassColumn } from "./sass.ts";
import type { Session } from "./session.ts";

/** Lines that a text has and another has not, as a count of a multiset: what a rail needs to say. */
function counts(before: string, after: string): readonly [added: number, removed: number] {
  const left = new Map<string, number>();
  for (const line of before.split("\n")) left.set(line, (left.get(line) ?? 0) + 1);
  let added = 0;
  for (const line of after.split("\n")) {
    const there = left.get(line) ?? 0;
    if (there === 0) added++;
    else left.set(line, there - 1);
  }
  return [added, [...left.values()].reduce((sum, count) => sum + count, 0)];
}

export class StagesPanel {
  readonly #session: Session;
  readonly #rail = h("ol", { class: "rail", "aria-label": "Passes" });
  readonly #title = h("h2", { class: "step" });
  readonly #about = h("p", { class: "hint" });
  readonly #status = h("p", { class: "status", "aria-live": "polite" });
  readonly #faults = h("ul", { class: "diagnostics", "aria-label": "What is wrong with the edited text" });
  readonly #diff = h("input", { type: "checkbox", checked: true });
  readonly #revert = h(
    "button",
    { type: "button", class: "small", onclick: () => this.#session.set({ edit: null }) },
    "Discard edit",
  );
  readonly #text: Editor;
  readonly #ptx: Editor;
  readonly #sass: SassColumn | null;
  readonly #counted = h("p", { class: "hint counted", "aria-live": "polite" });
  #counts: ReadonlyMap<number, StatementCounts> = new Map();
  #drawn: Kernel | null = null;
  #marks: readonly number[] = [];

  constructor(parent: HTMLElement, session: Session) {
    this.#session = session;
    const text = h("div", { class: "editor" });
    const ptx = h("div", { class: "editor" });
    this.#diff.addEventListener("change", () => this.#show());
    const unproven = h("input", { type: "checkbox" });
    unproven.addEventListener("change", () =>
      session.set({ unproven: unproven.checked ? "yes" : "no", edit: session.state.edit }),
    );
    this.#sass = offersSass()
      ? new SassColumn(
          session,
          (line) => this.#linkFromPtx(line),
          () => this.#count(this.#counting),
        )
      : null;
    fill(
      parent,
      h(
        "div",
        { class: this.#sass === null ? "stages" : "stages with-sass" },
        h("nav", { "aria-label": "Passes" }, this.#rail),
        h(
          "section",
          { class: "text", "aria-label": "Program" },
          h(
            "div",
            { class: "bar" },
            this.#title,
            h("label", {}, this.#diff, " difference"),
            h(
              "label",
              { title: "Compile an edited text even where the verifiers refuse it" },
              unproven,
              " unproven too",
            ),
            this.#revert,
          ),
          this.#about,
          text,
          this.#status,
          this.#faults,
        ),
        h(
          "section",
          { class: "ptx", "aria-label": "PTX" },
          h("div", { class: "bar" }, h("h2", {}, "PTX")),
          this.#counted,
          ptx,
        ),
        this.#sass?.root ?? null,
      ),
    );
    this.#text = new Editor({
      parent: text,
      language: "tile",
      label: "Program after the chosen pass; editing it compiles the kernel anew",
      editable: true,
      changed: (edited) => session.set({ edit: { step: this.#step, text: edited } }),
      moved: (line) => this.#linkFromText(line),
      plants: (shown) =>
        new Set(
          this.#editable ? plants(this.#step === "ptx" ? "ptx" : "tile", shown).map(({ line }) => line) : [],
        ),
      planted: (line) => this.plant(line),
    });
    this.#ptx = new Editor({
      parent: ptx,
      language: "ptx",
      label: "PTX of the kernel",
      editable: false,
      moved: (line) => this.#linkFromPtx(line),
    });
    session.listen((_, what) => {
      unproven.checked = session.state.unproven === "yes";
      if (what === "compiled") this.#show();
      else if (this.#shownStep !== this.#step || session.state.edit === null) this.#show();
    });
    unproven.checked = session.state.unproven === "yes";
  }

  #shownStep = "";

  get #steps(): readonly Step[] {
    return this.#session.kernel?.steps ?? [];
  }

  /** The chosen step, or the last. */
  get #step(): string {
    const { step } = this.#session.state;
    if (step === "ptx" || this.#steps.some(({ pass }) => pass === step)) return step;
    return this.#steps.findLast(({ changed }) => changed)?.pass ?? "tile";
  }

  /** Take a line of the shown text out, and compile what is left. */
  plant(line: number): void {
    this.#session.set({ edit: { step: this.#step, text: without(this.#text.text, line) }, unproven: "yes" });
  }

  /** Show a line of the PTX, and what it was made from; the keyboard goes on there. */
  gotoPtx(line: number): void {
    this.#session.set({ tab: "stages" });
    this.#ptx.view.focus();
    this.#ptx.link([line]);
    this.#linkFromPtx(line);
  }

  /** Show a line of the last stage; the keyboard goes on there. */
  gotoText(line: number): void {
    this.#session.set({ tab: "stages", step: this.#steps.at(-1)?.pass ?? "" });
    this.#text.view.focus();
    this.#text.link([line]);
  }

  /** PTX lines that findings are about. */
  mark(lines: readonly number[]): void {
    this.#marks = lines;
    this.#ptx.link(lines);
  }

  /** Whether what is shown can be compiled from. */
  get #editable(): boolean {
    return this.#steps.find(({ pass }) => pass === this.#step)?.editable ?? true;
  }

  /** Lines of PTX that a statement of the last stage was made into. */
  #ptxOf(line: number): readonly number[] {
    return this.#session.kernel?.links?.ofPtx.flatMap((of, i) => (of === line ? [i + 1] : [])) ?? [];
  }

  #counting = 0;

  /** Say what a statement of the last stage was made into. */
  #count(line: number): void {
    this.#counting = line;
    const found = this.#counts.get(line);
    const sass = this.#sass?.count(this.#ptxOf(line)) ?? 0;
    const most = found?.opcodes.slice(0, 5).map(([name, count]) => `${name} ${count}`) ?? [];
    this.#counted.textContent =
      found === undefined
        ? ""
        : `Line ${line}: ${found.instructions} ${found.instructions === 1 ? "instruction" : "instructions"} (${most.join(", ")}${found.opcodes.length > 5 ? ", …" : ""}), ${found.registers} new registers of 32 bits, ${found.predicates} predicates${sass === 0 ? "" : `; ${sass} of SASS`}`;
  }

  #linkFromText(line: number): void {
    const links = this.#session.kernel?.links;
    if (
      links == null ||
      this.#step === "ptx" ||
      (this.#step !== this.#steps.at(-1)?.pass && !this.#sameAsLast())
    )
      return;
    this.#ptx.link(this.#ptxOf(line));
    this.#sass?.link(this.#ptxOf(line));
    this.#count(line);
    this.#text.link([line], false);
  }

  #linkFromPtx(line: number): void {
    const links = this.#session.kernel?.links;
    const of = links?.ofPtx[line - 1] ?? 0;
    if (links == null || of === 0) return;
    this.#count(of);
    this.#ptx.link(this.#ptxOf(of), false);
    // From a line of PTX its own instructions, which stand together.
    this.#sass?.link([line]);
    if (this.#sameAsLast()) this.#text.link([of]);
  }

  /** The shown program is the last one: what the PTX was made from. */
  #sameAsLast(): boolean {
    return this.#steps.find(({ pass }) => pass === this.#step)?.text === this.#steps.at(-1)?.text;
  }

  #drawRail(): void {
    const { edit } = this.#session.state;
    let stage = "";
    const entry = (pass: string, label: string, detail: string, about: string) =>
      h(
        "li",
        {},
        h(
          "button",
          {
            type: "button",
            title: about,
            "aria-current": pass === this.#step ? "step" : null,
            class: edit?.step === pass ? "edited" : "",
            onclick: () => this.#session.set({ step: pass }),
          },
          h("span", {}, label),
          h("span", { class: "count" }, edit?.step === pass ? "edited" : detail),
        ),
      );
    const rows: HTMLElement[] = [];
    this.#steps.forEach((step, i) => {
      if (step.stage !== stage) {
        stage = step.stage;
        rows.push(h("li", { class: "stage" }, stage));
      }
      if (!step.changed) return;
      const before = step.follows ? this.#steps[i - 1] : undefined;
      const [added, removed] = before === undefined ? [0, 0] : counts(before.text, step.text);
      rows.push(
        entry(step.pass, step.pass, before === undefined ? "" : `+${added} −${removed}`, step.summary),
      );
    });
    const idle = this.#steps.filter(({ changed }) => !changed).map(({ pass }) => pass);
    rows.push(h("li", { class: "stage" }, "text"));
    rows.push(
      entry(
        "ptx",
        "PTX",
        `${this.#session.kernel?.ptx.split("\n").length ?? 0} lines`,
        "What the driver loads",
      ),
    );
    if (idle.length > 0)
      rows.push(
        h("li", { class: "idle", title: idle.join(", ") }, `${idle.length} passes had nothing to do`),
      );
    fill(this.#rail, rows);
  }

  #show(): void {
    const { kernel, compiled, state } = this.#session;
    if (kernel === null) return;
    const step = this.#step;
    const steps = this.#steps;
    const at = steps.findIndex(({ pass }) => pass === step);
    const shown = steps[at];
    const { edit } = state;
    const edited = edit !== null && edit.step === step ? edit.text : null;
    const own = step === "ptx" ? kernel.ptx : (shown?.text ?? "");
    const before = shown?.follows === true ? (steps[at - 1]?.text ?? null) : null;
    this.#shownStep = step;
    this.#drawRail();
    this.#title.textContent = step === "ptx" ? "PTX" : `${step} (${shown?.stage ?? ""})`;
    this.#about.textContent =
      step === "ptx"
        ? "Edit it: what runs on the emulator is this text."
        : this.#editable
          ? (shown?.summary ?? "")
          : `${shown?.summary ?? ""}. Read only: the next pass completes it. Edit that one, or one before.`;
    // What somebody is typing stays what they typed; only the answer to it comes late.
    const mine = edited !== null && this.#text.view.hasFocus && this.#text.text === edited;
    if (!mine)
      this.#text.show(edited ?? own, {
        before: this.#diff.checked ? before : null,
        editable: this.#editable,
      });
    if (this.#drawn !== kernel) {
      this.#ptx.show(kernel.ptx);
      this.#counts = statementCounts(kernel.ptx, kernel.links?.ofPtx ?? []);
      this.#counted.textContent = "";
      this.#drawn = kernel;
      this.#marks = [];
    }
    if (this.#marks.length > 0) this.#ptx.link(this.#marks, false);
    this.#revert.hidden = edit === null;
    const found = compiled?.diagnostics ?? [];
    this.#text.fault(edited === null ? [] : found);
    showDiagnostics(this.#faults, edit === null ? [] : found, { goto: (line) => this.#text.goto(line) });
    const time = spent(compiled?.ms ?? null);
    this.#status.textContent =
      edit === null
        ? `compiled ${time}`
        : compiled?.kernel === null
          ? "the edit does not compile: shown is the last kernel that did"
          : found.length > 0
            ? `edited and compiled unproven ${time}: the verifiers refuse it, the emulator can convict it`
            : `edited and compiled ${time}`;
    this.#status.dataset.state =
      edit === null ? "" : compiled?.kernel === null ? "bad" : found.length > 0 ? "unproven" : "good";
  }
}
