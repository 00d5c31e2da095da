/** The kernel on the emulator: orders, seeds, errors as a picture, findings that lead to their lines, faults planted by a click. */
import type { Finding } from "@tilewright/emulator";
import { plants, without } from "../model/faults.ts";
import type { Heat } from "../model/heat.ts";
import type { Kernel } from "../worker/compiling.ts";
import { Stopped } from "../worker/rpc.ts";
import type { Order, RunReport } from "../worker/running.ts";
import { showDiagnostics } from "./diagnostics.ts";
import { bytesText, fill, h, short, table } from "./dom.ts";
import { said } from "./findings.ts";
import type { Session } from "./session.ts";
import type { StagesPanel } from "./stages.ts";
import { TimelinePanel } from "./timeline.ts";

const allOrders: readonly Order[] = ["eager", "lazy", "random"];

/** Multiply-adds that the emulator does in some seconds. */
const comfortable = 2 ** 27;

/** Error over its bound as a colour: nothing is blue, the bound yellow, beyond it red. */
function colourOf(ratio: number): readonly [number, number, number] {
  if (!Number.isFinite(ratio)) return [255, 0, 160];
  if (ratio > 1) return [220, 38, 38];
  const t = Math.sqrt(Math.max(0, ratio));
  return [30 + 220 * t, 60 + 150 * t, 150 - 110 * t];
}

function drawHeat(canvas: HTMLCanvasElement, heat: Heat): void {
  canvas.width = heat.wide;
  canvas.height = heat.high;
  // As wide for its height as D is, so far as both can be seen.
  const ratio = Math.min(4, Math.max(0.25, heat.columns / heat.rows));
  canvas.style.aspectRatio = String(ratio);
  canvas.style.width = `${Math.round(420 * Math.min(1, ratio))}px`;
  const context = canvas.getContext("2d");
  if (context === null) return;
  const image = context.createImageData(heat.wide, heat.high);
  heat.cells.forEach((ratio, i) => {
    image.data.set([...colourOf(ratio), 255], 4 * i);
  });
  context.putImageData(image, 0, 0);
}

export class RunPanel {
  readonly #session: Session;
  readonly #stages: StagesPanel;
  readonly #orders: readonly HTMLInputElement[];
  readonly #seed = h("input", { type: "number", min: 0, value: 1, class: "narrow" });
  readonly #start = h(
    "button",
    { type: "button", class: "primary", onclick: () => void this.run() },
    "Run on the emulator",
  );
  readonly #stop = h(
    "button",
    { type: "button", hidden: true, onclick: () => this.#session.runner.stop() },
    "Stop",
  );
  readonly #progress = h("p", { class: "status", role: "status" });
  readonly #verdict = h("div", { class: "verdict", "aria-live": "polite" });
  readonly #results = h("div", { class: "results" });
  readonly #timeline: TimelinePanel;
  readonly #fault = h("select", { "aria-label": "Line to take out" });
  readonly #note = h("p", { class: "hint" });

  constructor(parent: HTMLElement, session: Session, stages: StagesPanel) {
    this.#session = session;
    this.#stages = stages;
    this.#timeline = new TimelinePanel(session, stages);
    this.#orders = allOrders.map((order) => h("input", { type: "checkbox", value: order, checked: true }));
    fill(
      parent,
      h(
        "div",
        { class: "bar controls" },
        this.#start,
        this.#stop,
        h(
          "fieldset",
          { class: "inline" },
          h("legend", { class: "hidden" }, "Completion orders"),
          this.#orders.map((input) => h("label", {}, input, ` ${input.value}`)),
        ),
        h("label", {}, "seed ", this.#seed),
        h(
          "span",
          { class: "plant" },
          this.#fault,
          h("button", { type: "button", onclick: () => this.#plant() }, "Take it out and run"),
          h(
            "button",
            { type: "button", class: "small", onclick: () => this.#session.set({ edit: null }) },
            "Put it back",
          ),
        ),
      ),
      this.#note,
      this.#progress,
      this.#verdict,
      this.#results,
      this.#timeline.root,
    );
    session.listen(() => {
      if (session.state.tab === "run" && session.kernel !== this.#listed) this.#refresh();
    });
    this.#refresh();
  }

  /** The kernel whose lines can be chosen from. */
  #listed: Kernel | null = null;

  /** Lines of the last stage and of the PTX that can be taken out. */
  #refresh(): void {
    const { kernel, state } = this.#session;
    if (kernel === null) return;
    this.#listed = kernel;
    const last = kernel.steps.at(-1);
    const group = (label: string, step: string, text: string) =>
      h(
        "optgroup",
        { label },
        plants(step === "ptx" ? "ptx" : "tile", text).map(({ line, text: said }) =>
          h("option", { value: `${step}:${line}` }, `${line}: ${said}`),
        ),
      );
    const chosen = this.#fault.value;
    fill(
      this.#fault,
      h("option", { value: "" }, "plant a fault …"),
      last === undefined ? null : group(`stage ${last.stage}`, last.pass, last.text),
      group("PTX", "ptx", kernel.ptx),
    );
    this.#fault.value = chosen;
    if (this.#fault.value !== chosen) this.#fault.value = "";
    this.#note.textContent =
      kernel.products > comfortable
        ? "This problem is large for an emulator: smaller sizes show the same kernel."
        : state.edit === null
          ? "Random matrices, every element compared with a float64 reference, every access checked."
          : "This is the edited kernel.";
  }

  #plant(): void {
    const [step = "", line] = this.#fault.value.split(":");
    const kernel = this.#session.kernel;
    if (step === "" || kernel === null) return;
    const text = step === "ptx" ? kernel.ptx : (kernel.steps.find(({ pass }) => pass === step)?.text ?? "");
    const done = (): void => void this.run();
    this.#once(done);
    this.#session.set({ edit: { step, text: without(text, Number(line)) }, unproven: "yes" });
  }

  #afterCompile: (() => void) | null = null;

  #once(act: () => void): void {
    if (this.#afterCompile === null)
      this.#session.listen((_, what) => {
        if (what !== "compiled") return;
        const next = this.#afterCompile;
        this.#afterCompile = () => {};
        next?.();
      });
    this.#afterCompile = act;
  }

  async run(): Promise<void> {
    const { kernel, compiled, state } = this.#session;
    if (kernel === null) return;
    if (compiled?.kernel === null) {
      const reasons = h("ul", { class: "diagnostics" });
      showDiagnostics(reasons, compiled.diagnostics);
      fill(
        this.#verdict,
        h("p", { class: "bad" }, "No kernel: the compiler does not translate this program."),
      );
      fill(this.#results, reasons);
      return;
    }
    const orders = allOrders.filter((_, i) => this.#orders[i]?.checked);
    this.#start.disabled = true;
    this.#stop.hidden = false;
    fill(this.#verdict);
    fill(this.#results);
    this.#timeline.hide();
    try {
      const report = await this.#session.runner.call(
        "run",
        {
          ...{ ptx: kernel.ptx, manifest: kernel.manifest, source: kernel.source, arch: state.arch },
          orders: orders.length > 0 ? orders : ["eager"],
          seed: this.#seed.valueAsNumber || 0,
        },
        (step) => {
          this.#progress.textContent = `emulating: ${String(step)}`;
        },
      );
      this.#show(report);
      if (report.reasons.length === 0) await this.#timeline.show();
    } catch (failure) {
      this.#progress.textContent =
        failure instanceof Stopped
          ? "stopped"
          : `a bug: ${failure instanceof Error ? failure.message : failure}`;
    } finally {
      this.#start.disabled = false;
      this.#stop.hidden = true;
    }
  }

  #show(report: RunReport): void {
    const found = report.orders.flatMap(({ findings }) =>
      findings.filter(({ severity }) => severity === "error"),
    );
    const unique = [
      ...new Map(found.map((finding) => [`${finding.rule} ${finding.location?.line}`, finding])).values(),
    ];
    const wrong = report.orders.some(({ completed, boundRatio }) => !completed || (boundRatio ?? 2) > 1);
    const good = report.reasons.length === 0 && unique.length === 0 && !wrong;
    this.#progress.textContent = `done in ${short(report.ms)} ms`;
    fill(
      this.#verdict,
      h(
        "p",
        { class: good ? "good" : "bad" },
        good
          ? "Right: every element within its bound, no hazards, in every order."
          : report.reasons.length > 0
            ? "It cannot run."
            : `Convicted: ${unique.length} ${unique.length === 1 ? "hazard" : "hazards"}${wrong ? ", and the result is wrong or was never finished" : ""}.`,
      ),
    );
    const reasons = h("ul", { class: "diagnostics" });
    showDiagnostics(reasons, report.reasons);
    fill(
      this.#results,
      reasons,
      report.reasons.length > 0
        ? null
        : [this.#ordersTable(report), this.#findings(unique), this.#picture(report), this.#counters(report)],
    );
    this.#stages.mark(unique.flatMap(({ location }) => (location === null ? [] : [location.line])));
  }

  #ordersTable({ orders, differing }: RunReport): HTMLElement {
    const rows = orders.map(({ order, completed, boundRatio, maxAbs, findings, timeMs, failures }) => [
      order,
      completed ? "yes" : "given up",
      boundRatio === null ? "–" : short(boundRatio),
      boundRatio === null ? "–" : `${short(maxAbs)}${failures > 0 ? ` (${failures} beyond)` : ""}`,
      String(findings.length),
      differing.includes(order) ? "differs" : "same",
      short(timeMs),
    ]);
    return table(
      "Runs by completion order",
      ["order", "finished", "error / bound", "largest error", "findings", "bits", "ms"],
      rows,
    );
  }

  #findings(found: readonly Finding[]): HTMLElement {
    return h(
      "ul",
      { class: "findings", "aria-label": "Findings" },
      found.map(({ rule, message, location, instruction, count, block, warp }) => {
        const line = location?.line ?? 0;
        const of = this.#session.kernel?.links?.ofPtx[line - 1] ?? 0;
        return h(
          "li",
          {},
          h(
            "a",
            {
              href: `https://github.com/tilewright/tilewright/blob/main/docs/hazards/README.md`,
              class: "rule",
            },
            rule,
          ),
          " ",
          said(message, (other) => this.#stages.gotoPtx(other)),
          " ",
          h("span", { class: "hint" }, `block ${block.join(",")}, warp ${warp}, ${count} times `),
          line === 0
            ? null
            : h(
                "button",
                { type: "button", class: "link", onclick: () => this.#stages.gotoPtx(line) },
                `PTX line ${line}`,
              ),
          of === 0
            ? null
            : [
                " ",
                h(
                  "button",
                  { type: "button", class: "link", onclick: () => this.#stages.gotoText(of) },
                  `program line ${of}`,
                ),
              ],
          h("pre", {}, instruction),
        );
      }),
    );
  }

  #picture({ heat, orders }: RunReport): HTMLElement | null {
    if (heat === null) return null;
    const canvas = h("canvas", {
      class: "heat",
      role: "img",
      "aria-label": `Error of each element of D over its bound, ${heat.rows} x ${heat.columns}`,
    });
    drawHeat(canvas, heat);
    const worst = orders.flatMap(({ worst: each }) => (each === null ? [] : [each]))[0];
    return h(
      "figure",
      {},
      canvas,
      h(
        "figcaption",
        {},
        `Error over its bound, ${heat.rows} x ${heat.columns} elements of D: blue is exact, yellow at the bound, red beyond it, pink no number. `,
        worst === undefined
          ? null
          : `Worst of the first order: D[${worst.row}, ${worst.column}] is ${short(worst.actual)} for ${short(worst.expected)}.`,
      ),
    );
  }

  #counters({ counters }: RunReport): HTMLElement | null {
    if (counters === null) return null;
    const facts: readonly (readonly [string, string])[] = [
      ["warp instructions", short(counters.warpInstructions)],
      [
        "global read, written",
        `${bytesText(counters.globalBytesRead)}, ${bytesText(counters.globalBytesWritten)}`,
      ],
      [
        "shared read, written",
        `${bytesText(counters.sharedBytesRead)}, ${bytesText(counters.sharedBytesWritten)}`,
      ],
      [
        "tensor memory read, written",
        `${bytesText(counters.tensorBytesRead)}, ${bytesText(counters.tensorBytesWritten)}`,
      ],
      [
        "bank conflicts of wavefronts",
        `${short(counters.sharedConflicts)} of ${short(counters.sharedWavefronts)}`,
      ],
    ];
    const mix = Object.entries(counters.instructions)
      .toSorted((a, b) => b[1] - a[1])
      .slice(0, 16);
    const waits = counters.waits
      .filter(({ polls }) => polls > 0)
      .toSorted((a, b) => b.polls - a.polls)
      .slice(0, 12);
    return h(
      "div",
      { class: "tables" },
      table("Counters", ["counted", ""], facts),
      table(
        "Instructions",
        ["opcode", "warp instructions"],
        mix.map(([name, count]) => [h("code", {}, name), short(count)]),
      ),
      table(
        "Waits",
        ["wait", "executed", "blocked", "polls"],
        waits.map(({ instruction, location, executions, blocked, polls }) => [
          h(
            "button",
            { type: "button", class: "link", onclick: () => this.#stages.gotoPtx(location?.line ?? 1) },
            instruction.slice(0, 48),
          ),
          short(executions),
          short(blocked),
          short(polls),
        ]),
      ),
    );
  }
}
