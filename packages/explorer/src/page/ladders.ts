/** Ladders as a story: one step a screen, what it changed in the program, in shared memory and in the counts, and what it was worth on a GPU. */
import { ladderRun } from "../model/measured.ts";
import { runs } from "../model/runs.ts";
import type { RungReport } from "../worker/compiling.ts";
import { barChart, stepChart } from "./charts.ts";
import { bytesText, fill, h, short, table } from "./dom.ts";
import { Editor } from "./editor.ts";
import type { Session } from "./session.ts";

export class LaddersPanel {
  readonly #session: Session;
  readonly #choice = h("select", { "aria-label": "Ladder" });
  readonly #steps = h("ol", { class: "rungs", "aria-label": "Steps" });
  readonly #story = h("div", { class: "story" });
  readonly #text: Editor;
  #rungs: readonly RungReport[] = [];
  #at = 0;
  #loaded = "";

  constructor(parent: HTMLElement, session: Session) {
    this.#session = session;
    const box = h("div", { class: "editor" });
    fill(
      this.#choice,
      session.world.ladders.map(({ backend, name, arch, summary }, i) =>
        h("option", { value: i }, `${arch}, ${name} (${backend}): ${summary}`),
      ),
    );
    this.#choice.addEventListener("change", () => void this.#load());
    fill(
      parent,
      h(
        "div",
        { class: "bar" },
        h("label", {}, "Ladder ", this.#choice),
        h("button", { type: "button", onclick: () => this.#go(this.#at - 1) }, "Back"),
        h("button", { type: "button", class: "primary", onclick: () => this.#go(this.#at + 1) }, "Next step"),
      ),
      h(
        "div",
        { class: "ladder" },
        h("nav", { "aria-label": "Steps of the ladder" }, this.#steps),
        h("section", { "aria-label": "Step" }, this.#story, box),
      ),
    );
    this.#text = new Editor({
      parent: box,
      language: "tile",
      label: "Program of this step, with what it changed",
      editable: false,
    });
    session.listen(() => {
      if (session.state.tab === "ladders" && this.#loaded === "") void this.#load();
    });
  }

  async #load(): Promise<void> {
    const ladder = this.#session.world.ladders[Number(this.#choice.value) || 0];
    if (ladder === undefined) return;
    this.#loaded = `${ladder.backend} ${ladder.name}`;
    this.#story.textContent = "compiling its steps …";
    this.#rungs = await this.#session.compiler.call("ladder", { backend: ladder.backend, name: ladder.name });
    this.#go(0);
  }

  #go(to: number): void {
    const rung = this.#rungs[to];
    if (rung === undefined) return;
    this.#at = to;
    fill(
      this.#steps,
      this.#rungs.map(({ name }, i) =>
        h(
          "li",
          {},
          h(
            "button",
            { type: "button", "aria-current": i === to ? "step" : null, onclick: () => this.#go(i) },
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
            ...{ arch: this.#session.world.ladders[Number(this.#choice.value) || 0]?.arch ?? "", gpu: "" },
            ...{ backend: this.#loaded.split(" ")[0] ?? "", schedule: rung.schedule, problem: rung.problem },
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
      h("div", { class: "columns" }, this.#worth(rung.name), this.#shared(rung)),
      rung.refused === null
        ? this.#counts(rung, before)
        : h("p", { class: "bad" }, `Not legal here: ${rung.refused.join("; ")}`),
    );
    this.#text.show(rung.text, { before: before?.text ?? null });
  }

  /** Speed of each step on the GPU that the ladder was timed on. */
  #worth(step: string): HTMLElement {
    const run = ladderRun(runs, this.#loaded.split(" ")[1] ?? "");
    const row = run?.rows.find((each) => each.step === step);
    if (run === null) return h("p", { class: "hint" }, "This ladder has not been timed on a GPU.");
    return h(
      "figure",
      {},
      h("h3", {}, "On a GPU"),
      stepChart(
        run.rows.map((each) => ({ name: each.step ?? "", value: Number(each["of cuBLASLt"]) })),
        step,
      ),
      h(
        "figcaption",
        { class: "hint" },
        row === undefined ? "" : `This step: ${row.µs} µs, ${row["TFLOP/s"]} TFLOP/s. `,
        `Share of cuBLASLt's speed at ${run.facts.get("size")}; ${run.where}; ${run.facts.get("command")}.`,
      ),
    );
  }

  #shared({ shared, sharedLimit }: RungReport): HTMLElement | null {
    return shared.length === 0
      ? null
      : h(
          "figure",
          {},
          h("h3", {}, "Shared memory"),
          barChart(
            shared.map(({ name, bytes }) => ({ name, value: bytes, text: bytesText(bytes) })),
            sharedLimit,
            "Tiles in shared memory",
          ),
        );
  }

  #counts(rung: RungReport, before: RungReport | undefined): HTMLElement {
    const change = (now: number, then: number | undefined): string =>
      then === undefined || then === now ? "" : `${now > then ? "+" : "−"}${short(Math.abs(now - then))}`;
    const names = [
      ...new Set([...Object.keys(rung.instructions), ...Object.keys(before?.instructions ?? {})]),
    ]
      .filter((name) => rung.instructions[name] !== before?.instructions[name])
      .toSorted((a, b) => (rung.instructions[b] ?? 0) - (rung.instructions[a] ?? 0))
      .slice(0, 10);
    const rows: (readonly string[])[] = [
      [
        "shared memory of a block",
        bytesText(rung.sharedBytes),
        before === undefined ? "" : change(rung.sharedBytes, before.sharedBytes),
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
