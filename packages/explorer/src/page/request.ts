/** The request: an example or a problem, architecture, GPU and schedule text. */
import type { CompletionContext, CompletionResult } from "@codemirror/autocomplete";
import { showDiagnostics } from "./diagnostics.ts";
import { fill, h, spent } from "./dom.ts";
import { Editor } from "./editor.ts";
import { examples } from "./examples.ts";
import { labelled, ProblemForm } from "./problem.ts";
import type { Session } from "./session.ts";

export class RequestPanel {
  readonly #session: Session;
  readonly #problem: ProblemForm;
  readonly #schedule: Editor;
  readonly #fields: (() => void)[] = [];
  readonly #reasons = h("ul", {
    class: "diagnostics",
    "aria-live": "polite",
    "aria-label": "Why there is no kernel",
  });
  readonly #chosen = h("div", { class: "chosen", "aria-live": "polite" });

  constructor(parent: HTMLElement, session: Session) {
    this.#session = session;
    this.#problem = new ProblemForm(session);
    const scheduleBox = h("div", { class: "editor small" });
    fill(
      parent,
      this.#example(),
      this.#problem.root,
      h("div", { class: "row three" }, this.#arch(), this.#gpu(), this.#backend()),
      h(
        "div",
        { class: "field" },
        h("span", { class: "label", id: "schedule-label" }, "Schedule"),
        scheduleBox,
        this.#scheduleButtons(),
      ),
      this.#reasons,
      this.#chosen,
    );
    this.#schedule = new Editor({
      parent: scheduleBox,
      language: "schedule",
      label: "Schedule; empty takes the compiler's choice",
      editable: true,
      small: true,
      complete: (context) => this.#complete(context),
      changed: (text) => session.set({ schedule: text.replace(/\s+/g, " ").trim() }),
    });
    session.listen((_, what) => (what === "state" ? this.#draw() : this.#judge()));
    this.#draw();
  }

  #bind(draw: () => void): void {
    this.#fields.push(draw);
  }

  #example(): HTMLElement {
    const input = h(
      "select",
      {
        onchange: () => {
          const chosen = examples[Number(input.value)];
          if (chosen !== undefined)
            this.#session.set({ gpu: "", backend: "", schedule: "", edit: null, step: "", ...chosen.state });
        },
      },
      h("option", { value: "" }, "choose one …"),
      examples.map(({ name }, i) => h("option", { value: i }, name)),
    );
    return labelled("Example", input);
  }

  #arch(): HTMLElement {
    const { targets } = this.#session.world;
    const input = h(
      "select",
      { onchange: () => this.#session.set({ arch: input.value, gpu: "", backend: "", schedule: "" }) },
      targets.map((arch) => h("option", {}, arch)),
    );
    this.#bind(() => {
      input.value = this.#session.state.arch;
    });
    return labelled("Architecture", input);
  }

  #gpu(): HTMLElement {
    const input = h("select", { onchange: () => this.#session.set({ gpu: input.value }) });
    let shown = "";
    this.#bind(() => {
      const { arch, gpu } = this.#session.state;
      if (shown !== arch) {
        const fits = this.#session.world.gpus.filter(
          (each) => each.arch.replace(/[af]$/, "") === arch.replace(/[af]$/, ""),
        );
        fill(
          input,
          h("option", { value: "" }, fits[0]?.name ?? "none known"),
          fits.slice(1).map(({ name }) => h("option", { value: name }, name)),
        );
        shown = arch;
      }
      input.value = gpu;
      if (input.value !== gpu) input.value = "";
    });
    return labelled("GPU", input);
  }

  #backend(): HTMLElement {
    const input = h(
      "select",
      { onchange: () => this.#session.set({ backend: input.value, schedule: "" }) },
      h("option", { value: "" }, "best"),
      this.#session.world.backends.map(({ id, summary }) => h("option", { value: id, title: summary }, id)),
    );
    this.#bind(() => {
      input.value = this.#session.state.backend;
    });
    return labelled("Backend", input);
  }

  #scheduleButtons(): HTMLElement {
    return h(
      "div",
      { class: "buttons" },
      h(
        "button",
        {
          type: "button",
          class: "small",
          onclick: () => this.#session.set({ schedule: this.#session.kernel?.schedule ?? "" }),
        },
        "Write it out",
      ),
      h(
        "button",
        { type: "button", class: "small", onclick: () => this.#session.set({ schedule: "" }) },
        "Compiler's choice",
      ),
      h(
        "button",
        { type: "button", class: "small", onclick: () => this.#session.set({ tab: "choices" }) },
        "Other schedules",
      ),
    );
  }

  /** Fields of the backend at hand; behind `=` what the field takes. */
  #complete(context: CompletionContext): CompletionResult | null {
    const { backends } = this.#session.world;
    const id = this.#session.kernel?.backend ?? this.#session.state.backend;
    const fields = (backends.find((backend) => backend.id === id) ?? backends[0])?.fields ?? [];
    const value = context.matchBefore(/\w+=[^\s=]*/);
    if (value !== null) {
      const [name = ""] = value.text.split("=");
      const field = fields.find((each) => each.name === name);
      if (field === undefined) return null;
      const words = field.syntax.split("|").filter((word) => /^[\w.]+$/.test(word));
      const said = [...new Set([field.default, ...(field.off === null ? [] : [field.off]), ...words])];
      return {
        from: value.from + name.length + 1,
        options: said.map((label) => ({ label, detail: label === field.default ? "default" : "" })),
      };
    }
    const word = context.matchBefore(/\w*/);
    if (word === null || (word.from === word.to && !context.explicit)) return null;
    return {
      from: word.from,
      options: fields.map(({ name, syntax, summary }) => ({
        label: name,
        apply: `${name}=`,
        detail: syntax,
        info: summary,
      })),
    };
  }

  #draw(): void {
    this.#problem.draw();
    for (const draw of this.#fields) draw();
    const { schedule } = this.#session.state;
    if (!this.#schedule.view.hasFocus) this.#schedule.show(schedule);
  }

  /** What the request came to. */
  #judge(): void {
    const { compiled, kernel, state } = this.#session;
    const failed = compiled !== null && compiled.kernel === null && state.edit === null;
    showDiagnostics(this.#reasons, failed ? compiled.diagnostics : [], {
      schedule: (schedule) => this.#session.set({ schedule }),
    });
    if (kernel !== null)
      fill(
        this.#chosen,
        h("p", {}, h("strong", {}, kernel.backend), ` made it ${spent(compiled?.ms ?? null)}`),
        kernel.schedule === null ? null : h("code", { class: "schedule" }, kernel.schedule),
      );
  }
}
