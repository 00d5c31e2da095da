/** The problem by a form, and as JSON: what an operation has, the form shows. */
import type { State } from "../model/state.ts";
import { h } from "./dom.ts";
import type { Session } from "./session.ts";

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

/** Operations, each with a problem to begin with; what is said of the dtype stays. */
const operations: readonly {
  readonly op: string;
  readonly name: string;
  readonly begin: Problem;
}[] = [
  { op: "", name: "matrix product", begin: { m: 256, n: 256, k: 256 } },
  { op: "ffn", name: "gated product", begin: { op: "ffn", act: "silu", m: 128, n: 128, k: 256 } },
  {
    op: "attention",
    name: "attention",
    begin: { op: "attention", queries: 128, keys: 256, headDim: 64, heads: 2 },
  },
];

const operationOf = (problem: Problem): string => {
  const { op } = problem;
  return typeof op === "string" && op !== "gemm" ? op : "";
};

/** A problem to begin with of an operation; what is said of the dtype stays. */
const beginOf = ({ begin }: { readonly begin: Problem }, { dtype }: Problem): Problem => ({
  ...begin,
  ...(dtype === undefined ? {} : { dtype }),
});

/** Whether a problem is attention. */
export const attends = (problem: Problem): boolean => operationOf(problem) === "attention";

/** The problem where it is attention; else what the form begins with when that is chosen. */
export function attentionAt(problem: Problem): Problem {
  const form = operations.find(({ op }) => op === "attention");
  return attends(problem) || form === undefined ? problem : beginOf(form, problem);
}

export function labelled<E extends HTMLElement>(label: string, input: E): HTMLElement {
  return h("label", { class: "field" }, h("span", { class: "label" }, label), input);
}

export class ProblemForm {
  readonly root: HTMLElement;
  readonly #session: Session;
  readonly #draws: (() => void)[] = [];

  constructor(session: Session) {
    this.#session = session;
    const product = h(
      "div",
      { class: "of-operation" },
      this.#numbers("m", "n", "k"),
      h(
        "div",
        { class: "row three" },
        this.#dtype("A, B dtype"),
        this.#select("A", "a.layout", ["", "row", "col"]),
        this.#select("B", "b.layout", ["", "row", "col"]),
      ),
      this.#words("Epilogue", "epilogue", "bias(n,f16)|gelu"),
    );
    const attention = h(
      "div",
      { class: "of-operation" },
      this.#numbers("queries", "keys", "headDim"),
      this.#numbers("heads", "kvHeads", "window"),
      h(
        "div",
        { class: "row three" },
        this.#dtype("Q, K, V dtype"),
        this.#select("layout", "layout", ["", "bhsd", "bshd"]),
        this.#select("causal", "causal", ["", "bottom-right", "top-left"]),
      ),
    );
    this.#bind((problem) => {
      [product.hidden, attention.hidden] = [attends(problem), !attends(problem)];
    });
    this.root = h(
      "fieldset",
      { class: "problem" },
      h("legend", {}, "Problem"),
      this.#operation(),
      product,
      attention,
      this.#json(),
    );
  }

  /** Show the state's problem; what has the focus stays as it was typed. */
  draw(): void {
    for (const draw of this.#draws) draw();
  }

  #bind(draw: (problem: Problem) => void): void {
    this.#draws.push(() => draw(this.#session.state.problem));
  }

  #set(path: string, value: unknown): void {
    this.#session.set({ problem: withField(this.#session.state.problem, path, value) });
  }

  #operation(): HTMLElement {
    const input = h(
      "select",
      {
        onchange: () => {
          const chosen = operations.find(({ op }) => op === input.value);
          const { problem } = this.#session.state;
          if (chosen !== undefined)
            this.#session.set({ problem: beginOf(chosen, problem), schedule: "", step: "" });
        },
      },
      operations.map(({ op, name }) => h("option", { value: op }, name)),
    );
    this.#bind((problem) => {
      input.value = operationOf(problem);
    });
    return labelled("Operation", input);
  }

  #numbers(...names: readonly string[]): HTMLElement {
    return h(
      "div",
      { class: "row three" },
      names.map((name) => this.#number(name)),
    );
  }

  #number(name: string): HTMLElement {
    const input = h("input", {
      type: "number",
      min: 1,
      inputmode: "numeric",
      oninput: () => this.#set(name, input.valueAsNumber),
    });
    this.#bind((problem) => {
      const value = String(readField(problem, name) ?? "");
      if (input.value !== value && document.activeElement !== input) input.value = value;
    });
    return labelled(name, input);
  }

  #dtype(label: string): HTMLElement {
    return this.#select(label, "dtype", ["", ...this.#session.world.dtypes]);
  }

  #select(label: string, path: string, values: readonly string[]): HTMLElement {
    const input = h(
      "select",
      { onchange: () => this.#set(path, input.value) },
      values.map((value) => h("option", { value }, value === "" ? "usual" : value)),
    );
    this.#bind((problem) => {
      const value = readField(problem, path);
      // `causal: true` is the first form.
      input.value = value === true ? (values[1] ?? "") : String(value ?? "");
    });
    return labelled(label, input);
  }

  #words(label: string, path: string, placeholder: string): HTMLElement {
    const input = h("input", {
      type: "text",
      placeholder,
      spellcheck: "false",
      oninput: () => this.#set(path, input.value.trim()),
    });
    this.#bind((problem) => {
      const value = readField(problem, path);
      if (document.activeElement !== input) input.value = typeof value === "string" ? value : "";
      input.disabled = value !== undefined && typeof value !== "string";
    });
    return labelled(label, input);
  }

  #json(): HTMLElement {
    const said = h("p", { class: "hint", "aria-live": "polite" });
    const json = h("textarea", { rows: 10, spellcheck: "false", "aria-label": "Problem as JSON" });
    json.addEventListener("input", () => {
      try {
        const problem: unknown = JSON.parse(json.value);
        said.textContent = "";
        if (typeof problem === "object" && problem !== null && !Array.isArray(problem))
          this.#session.set({ problem: problem as Problem });
        else said.textContent = "a problem is an object";
      } catch (failure) {
        said.textContent = failure instanceof Error ? failure.message : "no JSON";
      }
    });
    this.#bind((problem) => {
      if (document.activeElement !== json) json.value = JSON.stringify(problem, null, 2);
    });
    return h(
      "details",
      {},
      h("summary", {}, "Problem as JSON: all other fields"),
      h(
        "p",
        { class: "hint" },
        "Leading dimensions, batch, block scales, weights in few bits, experts, symbolic sizes: `tilewright schema problem` lists them.",
      ),
      json,
      said,
    );
  }
}
