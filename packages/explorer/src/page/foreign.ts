/** Any PTX, with a launch file: dropped or pasted, run in all orders and judged. */
import type { Finding } from "@tilewright/emulator";
import { Stopped } from "../worker/rpc.ts";
import type { ForeignReport } from "../worker/running.ts";
import { showDiagnostics } from "./diagnostics.ts";
import { fill, h, short, table } from "./dom.ts";
import { Editor } from "./editor.ts";
import { said } from "./findings.ts";
import type { Session } from "./session.ts";

/** A reversal of 64 numbers through shared memory that forgets the barrier between its halves. */
const example = {
  ptx: `.version 7.0
.target sm_70
.address_size 64
.shared .align 4 .b8 tile[256];
.visible .entry reverse(.param .u64 p_in, .param .u64 p_out)
.maxntid 64, 1, 1
{
  .reg .u64 %in, %out;
  .reg .u32 %t, %at, %r;
  .reg .f32 %x;
  ld.param.u64 %in, [p_in];
  ld.param.u64 %out, [p_out];
  mov.u32 %t, %tid.x;
  mad.wide.u32 %in, %t, 4, %in;
  mad.wide.u32 %out, %t, 4, %out;
  ld.global.f32 %x, [%in];
  mov.u32 %at, tile;
  mad.lo.u32 %r, %t, 4, %at;
  st.shared.f32 [%r], %x;
  // bar.sync 0;
  sub.u32 %t, 63, %t;
  mad.lo.u32 %r, %t, 4, %at;
  ld.shared.f32 %x, [%r];
  st.global.f32 [%out], %x;
  ret;
}
`,
  launch: JSON.stringify(
    {
      entry: "reverse",
      grid: 1,
      block: 64,
      buffers: {
        in: { dtype: "f32", shape: [64], fill: { normal: { seed: 1 } } },
        out: { dtype: "f32", shape: [64] },
      },
      params: [{ buffer: "in" }, { buffer: "out" }],
    },
    null,
    2,
  ),
};

const isTriton = (text: string): boolean => /"num_warps"\s*:/.test(text);

export class ForeignPanel {
  readonly #session: Session;
  readonly #ptx: Editor;
  readonly #launch: Editor;
  readonly #files = new Map<string, Uint8Array>();
  readonly #status = h("p", { class: "status", role: "status" });
  readonly #verdict = h("div", { class: "verdict", "aria-live": "polite" });
  readonly #results = h("div");
  readonly #judge = h(
    "button",
    { type: "button", class: "primary", onclick: () => void this.#run() },
    "Judge it",
  );
  readonly #stop = h(
    "button",
    { type: "button", hidden: true, onclick: () => this.#session.runner.stop() },
    "Stop",
  );

  constructor(parent: HTMLElement, session: Session) {
    this.#session = session;
    const ptx = h("div", { class: "editor" });
    const launch = h("div", { class: "editor" });
    const picker = h("input", {
      type: "file",
      multiple: true,
      accept: ".ptx,.json,.npy,.txt",
      "aria-label": "Files: PTX, launch file or Triton metadata, arrays",
    });
    picker.addEventListener("change", () => void this.#take([...(picker.files ?? [])]));
    const drop = h(
      "div",
      { class: "drop" },
      h(
        "p",
        {},
        "Drop a PTX file and its launch file, the .ptx and .json of a Triton cache, or .npy arrays here: nothing leaves this machine.",
      ),
      h(
        "div",
        { class: "bar" },
        picker,
        h(
          "button",
          { type: "button", onclick: () => this.#set(example.ptx, example.launch) },
          "Example with a race",
        ),
        h("button", { type: "button", onclick: () => void this.#template("") }, "Launch file for this text"),
        this.#judge,
        this.#stop,
      ),
      this.#status,
    );
    drop.addEventListener("dragover", (event) => {
      event.preventDefault();
      drop.classList.add("over");
    });
    drop.addEventListener("dragleave", () => drop.classList.remove("over"));
    drop.addEventListener("drop", (event) => {
      event.preventDefault();
      drop.classList.remove("over");
      void this.#take([...(event.dataTransfer?.files ?? [])]);
    });
    fill(
      parent,
      drop,
      this.#verdict,
      h(
        "div",
        { class: "files" },
        h("section", { "aria-label": "PTX" }, h("h2", {}, "PTX"), ptx),
        h("section", { "aria-label": "Launch file" }, h("h2", {}, "Launch file"), launch),
      ),
      this.#results,
    );
    this.#ptx = new Editor({ parent: ptx, language: "ptx", label: "PTX to be judged", editable: true });
    this.#launch = new Editor({
      parent: launch,
      language: "json",
      label: "Launch file: grid, block, buffers, parameters",
      editable: true,
    });
  }

  #set(ptx: string, launch: string): void {
    this.#ptx.show(ptx);
    this.#launch.show(launch);
    fill(this.#verdict);
    fill(this.#results);
  }

  async #take(files: readonly File[]): Promise<void> {
    let triton = "";
    let launched = false;
    for (const file of files) {
      if (file.name.endsWith(".npy")) {
        this.#files.set(file.name, new Uint8Array(await file.arrayBuffer()));
        continue;
      }
      const text = await file.text();
      if (!file.name.endsWith(".json")) this.#ptx.show(text);
      else if (isTriton(text)) triton = text;
      else {
        this.#launch.show(text);
        launched = true;
      }
    }
    const arrays = this.#files.size > 0 ? `; arrays: ${[...this.#files.keys()].join(", ")}` : "";
    this.#status.textContent = `taken: ${files.map(({ name }) => name).join(", ")}${arrays}`;
    if (!launched && (triton !== "" || this.#launch.text === "")) await this.#template(triton);
  }

  async #template(metadata: string): Promise<void> {
    const launch = await this.#session.runner.call("template", { ptx: this.#ptx.text, metadata });
    if (launch === "") this.#status.textContent = "the text is no PTX with an entry";
    else {
      this.#launch.show(launch);
      this.#status.textContent =
        "sizes of buffers and scalars are guesses: set them as the kernel wants them";
    }
  }

  async #run(): Promise<void> {
    this.#judge.disabled = true;
    this.#stop.hidden = false;
    fill(this.#verdict);
    fill(this.#results);
    try {
      const report = await this.#session.runner.call(
        "foreign",
        {
          ptx: this.#ptx.text,
          launch: this.#launch.text,
          files: Object.fromEntries(this.#files),
          orders: ["eager", "lazy", "random"],
          seed: 1,
        },
        (step) => {
          this.#status.textContent = `emulating: ${String(step)}`;
        },
      );
      this.#show(report);
    } catch (failure) {
      this.#status.textContent =
        failure instanceof Stopped
          ? "stopped"
          : `a bug: ${failure instanceof Error ? failure.message : failure}`;
    } finally {
      this.#judge.disabled = false;
      this.#stop.hidden = true;
    }
  }

  #show({ reasons, runs, ms }: ForeignReport): void {
    this.#status.textContent = `done in ${short(ms)} ms`;
    const errors = runs.flatMap(({ findings }) => findings.filter(({ severity }) => severity === "error"));
    const unique = [...new Map(errors.map((one) => [`${one.rule} ${one.location?.line}`, one])).values()];
    const wrong = runs.some(
      ({ completed, checks }) => !completed || checks.some(({ failures }) => failures > 0),
    );
    const good = reasons.length === 0 && unique.length === 0 && !wrong;
    fill(
      this.#verdict,
      h(
        "p",
        { class: good ? "good" : "bad" },
        good
          ? "No hazard in any order."
          : reasons.length > 0
            ? "It cannot run as it is."
            : `Convicted: ${unique.length} ${unique.length === 1 ? "hazard" : "hazards"}${wrong ? ", and the run is wrong or was given up" : ""}.`,
      ),
    );
    const list = h("ul", { class: "diagnostics" });
    showDiagnostics(list, reasons, { goto: (line) => this.#ptx.goto(line) });
    const rows = runs.map(({ order, completed, findings, checks, timeMs }) => [
      order,
      completed ? "yes" : "given up",
      String(findings.length),
      checks.length === 0
        ? "not compared"
        : checks
            .map(({ buffer, failures, elements }) => `${buffer}: ${failures} of ${elements} off`)
            .join("; "),
      short(timeMs),
    ]);
    fill(
      this.#results,
      list,
      runs.length === 0
        ? null
        : table("Runs by completion order", ["order", "finished", "findings", "expected", "ms"], rows),
      h(
        "ul",
        { class: "findings", "aria-label": "Findings" },
        unique.map((one) => this.#finding(one)),
      ),
    );
    this.#ptx.link(unique.flatMap(({ location }) => (location === null ? [] : [location.line])));
  }

  #finding({ rule, message, location, instruction, block, warp, count }: Finding): HTMLElement {
    return h(
      "li",
      {},
      h("strong", {}, rule),
      " ",
      said(message, (other) => this.#ptx.goto(other)),
      " ",
      h("span", { class: "hint" }, `block ${block.join(",")}, warp ${warp}, ${count} times `),
      location === null
        ? null
        : h(
            "button",
            { type: "button", class: "link", onclick: () => this.#ptx.goto(location.line) },
            `line ${location.line}`,
          ),
      h("pre", {}, instruction),
    );
  }
}
