/** The request: problem by a form or as JSON, architecture, GPU and schedule text. */
import type { CompletionContext, CompletionResult } from "@codemirror/autocomplete";
import type { State } from "../model/state.ts";
import { showDiagnostics } from "./diagnostics.ts";
import { fill, h, short } from "./dom.ts";
import { Editor } from "./editor.ts";
import type { Session } from "./session.ts";

interface Example {
  readonly name: string;
  readonly state: Partial<State>;
}

/** One of each generation, and of what problems can be. */
const examples: readonly Example[] = [
  {
    name: "Hopper: bf16, persistent, TMA",
    state: { arch: "sm_90a", problem: { m: 256, n: 256, k: 256, dtype: "bf16", b: { layout: "col" } } },
  },
  {
    name: "Blackwell: bf16, tensor memory",
    state: { arch: "sm_100a", problem: { m: 256, n: 256, k: 256, dtype: "bf16", b: { layout: "col" } } },
  },
  {
    name: "Ampere: f16, cp.async",
    state: { arch: "sm_80", problem: { m: 256, n: 256, k: 256, dtype: "f16", b: { layout: "col" } } },
  },
  {
    name: "Volta: f32 on CUDA cores",
    state: { arch: "sm_70", problem: { m: 256, n: 256, k: 256, dtype: "f32" } },
  },
  {
    name: "Linear layer: gelu(A.B + bias)",
    state: {
      arch: "sm_80",
      problem: { m: 128, n: 256, k: 192, dtype: "f16", b: { layout: "col" }, epilogue: "bias(n,f16)|gelu" },
    },
  },
  {
    name: "fp8, two-level accumulation",
    state: {
      arch: "sm_90a",
      problem: {
        m: 256,
        n: 256,
        k: 512,
        dtype: "e4m3",
        b: { layout: "col" },
        precision: "promoted",
        d: { dtype: "bf16" },
      },
    },
  },
  {
    name: "Sizes that divide nothing",
    state: { arch: "sm_70", problem: { m: 301, n: 203, k: 77, dtype: "f32" } },
  },
  {
    name: "4096³ on an H200",
    state: {
      arch: "sm_90a",
      gpu: "H200",
      problem: { m: 4096, n: 4096, k: 4096, dtype: "bf16", b: { layout: "col" } },
    },
  },
];

type Problem = State["problem"];

const inside = (problem: Problem, operand: string): Problem => {
  const value = problem[operand];
  return typeof value === "object" && value !== null ? (value as Problem) : {};
};

/** The problem with one field set or, where the value is empty, left out. `path`: `m` or `b.layout`. */
function withField(problem: Problem, path: string, value: unknown): Problem {
  const [name = "", key] = path.split(".");
  const next: Record<string, unknown> = { ...problem };
  if (key !== undefined) {
    const operand: Record<string, unknown> = { ...inside(problem, name), [key]: value };
    if (value === "") delete operand[key];
    next[name] = operand;
    if (Object.keys(operand).length === 0) delete next[name];
  } else if (value === "" || (typeof value === "number" && Number.isNaN(value))) delete next[name];
  else next[name] = value;
  return next;
}

const readField = (problem: Problem, path: string): unknown => {
  const [name = "", key] = path.split(".");
  return key === undefined ? problem[name] : inside(problem, name)[key];
};

export class RequestPanel {
  readonly #session: Session;
  readonly #schedule: Editor;
  readonly #fields: (() => void)[] = [];
  readonly #reasons = h("ul", {
    class: "diagnostics",
    "aria-live": "polite",
    "aria-label": "Why there is no kernel",
  });
  readonly #json = h("textarea", { rows: 10, spellcheck: "false", "aria-label": "Problem as JSON" });
  readonly #chosen = h("div", { class: "chosen", "aria-live": "polite" });

  constructor(parent: HTMLElement, session: Session) {
    this.#session = session;
    const scheduleBox = h("div", { class: "editor small" });
    fill(
      parent,
      this.#example(),
      h(
        "fieldset",
        { class: "row three" },
        h("legend", {}, "Problem"),
        this.#number("m"),
        this.#number("n"),
        this.#number("k"),
      ),
      h(
        "div",
        { class: "row three" },
        this.#select("dtype of A and B", "dtype", ["", ...session.world.dtypes]),
        this.#select("A", "a.layout", ["", "row", "col"]),
        this.#select("B", "b.layout", ["", "row", "col"]),
      ),
      this.#words("Epilogue", "epilogue", "bias(n,f16)|gelu"),
      this.#jsonBox(),
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

  #problem(path: string, value: unknown): void {
    this.#session.set({ problem: withField(this.#session.state.problem, path, value) });
  }

  #labelled<E extends HTMLElement>(label: string, input: E): HTMLElement {
    return h("label", { class: "field" }, h("span", { class: "label" }, label), input);
  }

  #number(name: "m" | "n" | "k"): HTMLElement {
    const input = h("input", {
      type: "number",
      min: 1,
      inputmode: "numeric",
      oninput: () => this.#problem(name, input.valueAsNumber),
    });
    this.#bind(() => {
      const value = String(readField(this.#session.state.problem, name) ?? "");
      if (input.value !== value && document.activeElement !== input) input.value = value;
    });
    return this.#labelled(name, input);
  }

  #select(label: string, path: string, values: readonly string[]): HTMLElement {
    const input = h(
      "select",
      { onchange: () => this.#problem(path, input.value) },
      values.map((value) => h("option", { value }, value === "" ? "usual" : value)),
    );
    this.#bind(() => {
      input.value = String(readField(this.#session.state.problem, path) ?? "");
    });
    return this.#labelled(label, input);
  }

  #words(label: string, path: string, placeholder: string): HTMLElement {
    const input = h("input", {
      type: "text",
      placeholder,
      spellcheck: "false",
      oninput: () => this.#problem(path, input.value.trim()),
    });
    this.#bind(() => {
      const value = readField(this.#session.state.problem, path);
      if (document.activeElement !== input) input.value = typeof value === "string" ? value : "";
      input.disabled = value !== undefined && typeof value !== "string";
    });
    return this.#labelled(label, input);
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
    return this.#labelled("Example", input);
  }

  #jsonBox(): HTMLElement {
    const said = h("p", { class: "hint", "aria-live": "polite" });
    this.#json.addEventListener("input", () => {
      try {
        const problem: unknown = JSON.parse(this.#json.value);
        said.textContent = "";
        if (typeof problem === "object" && problem !== null && !Array.isArray(problem))
          this.#session.set({ problem: problem as Problem });
        else said.textContent = "a problem is an object";
      } catch (failure) {
        said.textContent = failure instanceof Error ? failure.message : "no JSON";
      }
    });
    this.#bind(() => {
      if (document.activeElement !== this.#json)
        this.#json.value = JSON.stringify(this.#session.state.problem, null, 2);
    });
    return h(
      "details",
      {},
      h("summary", {}, "Problem as JSON: leading dimensions, batch, scales, symbolic sizes"),
      this.#json,
      said,
    );
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
    return this.#labelled("Architecture", input);
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
    return this.#labelled("GPU", input);
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
    return this.#labelled("Backend", input);
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
        h("p", {}, h("strong", {}, kernel.backend), ` made it in ${short(compiled?.ms ?? 0)} ms`),
        kernel.schedule === null ? null : h("code", { class: "schedule" }, kernel.schedule),
      );
  }
}
