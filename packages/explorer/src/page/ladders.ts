/** Ladders as a story: one step a screen, what it changed in the program, in shared memory and in the counts, and what it was worth on a GPU. */
import { ladderRun } from "../model/measured.ts";
import { runs } from "../model/runs.ts";
import type { AttentionAsk, LadderReport, RungReport } from "../worker/compiling.ts";
import { barChart, stepChart } from "./charts.ts";
import { showDiagnostics } from "./diagnostics.ts";
import { bytesText, fill, h, short, table } from "./dom.ts";
import { Editor } from "./editor.ts";
import { figure } from "./figure.ts";
import { attends, attentionAt } from "./problem.ts";
import type { Session } from "./session.ts";

export class LaddersPanel {
  readonly #session: Session;
  readonly #choice = h("select", { "aria-label": "Ladder" });
  readonly #steps = h("ol", { class: "rungs", "aria-label": "Steps" });
  readonly #story = h("div", { class: "story" });
  readonly #reasons = h("ul", {
    class: "diagnostics",
    "aria-live": "polite",
    "aria-label": "Why there are no steps",
    hidden: true,
  });
  /** Beside the program: its tiles in shared memory, and counts. */
  readonly #beside = h("div", {});
  readonly #text: Editor;
  #rungs: readonly RungReport[] = [];
  /** Backend of their kernels. */
  #backend = "";
  /** The ladder whose steps are here, with what it is asked of. */
  #loaded = "";
  #busy = false;
  #shown = -1;

  constructor(parent: HTMLElement, session: Session) {
    this.#session = session;
    const box = h("div", { class: "editor" });
    fill(
      this.#choice,
      session.world.ladders.map(({ backend, name, arch, summary }, i) =>
        h(
          "option",
          { value: i },
          backend === null
            ? `${name}, as requested: ${summary}`
            : `${arch}, ${name} (${backend}): ${summary}`,
        ),
      ),
    );
    this.#choice.addEventListener("change", () => {
      session.set({ ladder: session.world.ladders[Number(this.#choice.value)]?.name ?? "", rung: "" });
    });
    fill(
      parent,
      h(
        "div",
        { class: "bar" },
        h("label", {}, "Ladder ", this.#choice),
        h("button", { type: "button", onclick: () => this.#go(-1) }, "Back"),
        h("button", { type: "button", class: "primary", onclick: () => this.#go(1) }, "Next step"),
      ),
      h(
        "div",
        { class: "ladder" },
        h("nav", { "aria-label": "Steps of the ladder" }, this.#steps),
        h(
          "section",
          { "aria-label": "Step" },
          this.#story,
          this.#reasons,
          h("div", { class: "changed" }, box, this.#beside),
        ),
      ),
    );
    this.#text = new Editor({
      parent: box,
      language: "tile",
      label: "Program of this step, with what it changed",
      editable: false,
    });
    session.listen(() => {
      if (session.state.tab === "ladders") void this.#draw();
    });
  }

  get #ladder() {
    const { ladders } = this.#session.world;
    const { ladder, problem } = this.#session.state;
    return (
      ladders.find(({ name }) => name === ladder) ??
      ladders.find(({ backend }) => (backend === null) === attends(problem))
    );
  }

  /** What the ladder of a request is asked of; of a product, whose backend need not serve it, the form's attention. */
  get #asked(): AttentionAsk {
    const { arch, gpu, backend, problem } = this.#session.state;
    return { arch, gpu, backend: attends(problem) ? backend : "", problem: attentionAt(problem) };
  }

  get #key(): string {
    const ladder = this.#ladder;
    return JSON.stringify([ladder?.name, ladder?.backend === null ? this.#asked : null]);
  }

  /** The step that the state names; the ladder is compiled where it is another one than before. While that is at work the newest state waits. */
  async #draw(): Promise<void> {
    const ladder = this.#ladder;
    if (ladder === undefined) return;
    this.#choice.value = String(this.#session.world.ladders.indexOf(ladder));
    if (this.#busy) return;
    this.#busy = true;
    try {
      while (this.#loaded !== this.#key) await this.#load();
    } finally {
      this.#busy = false;
    }
    this.#step();
  }

  async #load(): Promise<void> {
    const [ladder, asked] = [this.#ladder, this.#asked];
    this.#loaded = this.#key;
    this.#story.textContent = "compiling its steps …";
    fill(this.#steps);
    fill(this.#beside);
    showDiagnostics(this.#reasons, []);
    // The request's own kernel, which the session asks for now, is made first.
    await null;
    const { compiler } = this.#session;
    const report: LadderReport =
      ladder?.backend === null
        ? await compiler.call("attentionLadder", asked)
        : await compiler.call("ladder", { backend: ladder?.backend ?? "", name: ladder?.name ?? "" });
    this.#rungs = report.rungs;
    this.#backend = report.backend;
    this.#shown = -1;
    if (this.#rungs.length > 0) return;
    this.#story.textContent = "";
    this.#text.show("");
    showDiagnostics(this.#reasons, report.diagnostics);
  }

  #step(): void {
    const to = Math.min(Math.max(1, Number(this.#session.state.rung) || 1), this.#rungs.length) - 1;
    const rung = this.#rungs[to];
    if (rung === undefined || to === this.#shown) return;
    this.#shown = to;
    this.#show(to, rung);
  }

  #go(by: number): void {
    const to = this.#shown + by;
    if (to >= 0 && to < this.#rungs.length) this.#session.set({ rung: String(to + 1) });
  }

  #show(to: number, rung: RungReport): void {
    fill(
      this.#steps,
      this.#rungs.map(({ name }, i) =>
        h(
          "li",
          {},
          h(
            "button",
            {
              type: "button",
              "aria-current": i === to ? "step" : null,
              onclick: () => this.#session.set({ rung: String(i + 1) }),
            },
            name,
          ),
        ),
      ),
    );
    const before = this.#rungs.slice(0, to).findLast(({ refused }) => refused === null);
    const open = h(
      "button",
      {
        type: "button",
        class: "small",
        onclick: () =>
          this.#session.set({
            ...(this.#ladder?.arch == null ? {} : { arch: this.#ladder.arch, gpu: "" }),
            backend: this.#backend,
            ...{ schedule: rung.schedule, problem: rung.problem },
            ...{ edit: null, step: "", tab: "stages" },
          }),
      },
      "Open this kernel",
    );
    fill(
      this.#story,
      h("h2", {}, `${to + 1} of ${this.#rungs.length}: ${rung.name}`),
      h("p", {}, rung.summary),
      h("p", {}, h("code", { class: "schedule" }, rung.change), " ", open),
      h("div", { class: "columns" }, this.#worth(rung.name), this.#predicted(to)),
      rung.refused === null ? null : h("p", { class: "bad" }, `Not legal here: ${rung.refused.join("; ")}`),
    );
    fill(this.#beside, this.#shared(rung), rung.refused === null ? this.#counts(rung, before) : null);
    this.#text.show(rung.text, { before: before?.text ?? null });
  }

  /** Speed of each step on the GPU that the ladder was timed on. */
  #worth(step: string): HTMLElement {
    const run = ladderRun(runs, this.#ladder?.name ?? "");
    const row = run?.rows.find((each) => each.step === step);
    if (run === null)
      return h(
        "p",
        { class: "hint" },
        this.#ladder?.arch == null
          ? "Not timed: `tilewright ladder --op attention` does that on a GPU. "
          : `Not timed: no machine that measured had a GPU for ${this.#ladder.arch}. `,
        "What each step is worth is the model's prediction.",
      );
    return figure(
      "On a GPU",
      "",
      stepChart(
        run.rows.map((each) => ({ name: each.step ?? "", value: Number(each["of cuBLASLt"]) })),
        step,
        "Share of cuBLASLt's speed",
        1,
      ),
      h(
        "p",
        { class: "hint" },
        row === undefined ? "" : `This step: ${row.µs} µs, ${row["TFLOP/s"]} TFLOP/s. `,
        `Share of cuBLASLt's speed at ${run.facts.get("size")}; ${run.where}; ${run.facts.get("command")}.`,
      ),
    );
  }

  /** What the model predicts of each step, in TFLOP/s. */
  #predicted(at: number): HTMLElement | null {
    const here = this.#rungs[at]?.predicted;
    if (here === null || here === undefined)
      return h("p", { class: "hint" }, "The model has no numbers of this step.");
    const before = this.#rungs.slice(0, at).findLast(({ predicted }) => predicted !== null)?.predicted;
    const gain =
      before === null || before === undefined ? "" : `, ${short(before.us / here.us)} times the step before`;
    const speeds = this.#rungs.map(({ predicted }) => predicted?.tflops ?? 0);
    // Whole numbers would be one and the same for all steps of a small request.
    const digits = Math.max(...speeds) < 10 ? 1 : 0;
    return figure(
      "Predicted",
      "",
      stepChart(
        this.#rungs.map(({ name }, i) => ({ name, value: Number((speeds[i] ?? 0).toFixed(digits)) })),
        this.#rungs[at]?.name ?? "",
        "Predicted TFLOP/s",
      ),
      h(
        "p",
        { class: "hint" },
        `This step: ${short(here.us)} µs, ${short(here.tflops)} TFLOP/s${gain}; bound by ${here.bound}. `,
        `By the machine model of ${here.gpu} for ${here.size}.`,
      ),
    );
  }

  #shared({ shared, sharedLimit }: RungReport): HTMLElement | null {
    return shared.length === 0
      ? null
      : figure(
          "Shared memory",
          "",
          barChart(
            shared.map(({ name, bytes }) => ({ name, value: bytes, text: bytesText(bytes) })),
            sharedLimit,
            "Tiles in shared memory",
            300,
          ),
        );
  }

  #counts(rung: RungReport, before: RungReport | undefined): HTMLElement {
    const change = (now: number, then: number | undefined, show = short): string =>
      then === undefined || then === now ? "" : `${now > then ? "+" : "−"}${show(Math.abs(now - then))}`;
    const names = [
      ...new Set([...Object.keys(rung.instructions), ...Object.keys(before?.instructions ?? {})]),
    ]
      .filter((name) => rung.instructions[name] !== before?.instructions[name])
      .toSorted((a, b) => (rung.instructions[b] ?? 0) - (rung.instructions[a] ?? 0))
      .slice(0, 10);
    const rows: (readonly string[])[] = [
      [
        "shared memory of a CTA",
        bytesText(rung.sharedBytes),
        before === undefined ? "" : change(rung.sharedBytes, before.sharedBytes, bytesText),
      ],
      ["lines of PTX", String(rung.ptxLines), change(rung.ptxLines, before?.ptxLines)],
      ...names.map((name) => [
        name,
        String(rung.instructions[name] ?? 0),
        change(rung.instructions[name] ?? 0, before?.instructions[name] ?? 0),
      ]),
    ];
    return table("Counts of this step", ["in the text", "", "change"], rows, { class: "compact" });
  }
}
