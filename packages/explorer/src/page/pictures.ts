/** Pictures of the kernel at hand: where time and bytes go, banks, fragments, the order of tiles. */
import { measuredOf } from "../model/measured.ts";
import { runs } from "../model/runs.ts";
import type { Pictures } from "../worker/compiling.ts";
import {
  bankChart,
  barChart,
  ownerChart,
  type RooflinePoint,
  rasterChart,
  rooflineChart,
  waveChart,
} from "./charts.ts";
import { showDiagnostics } from "./diagnostics.ts";
import { bytesText, fill, h, short, table } from "./dom.ts";
import { figure } from "./figure.ts";
import type { Session } from "./session.ts";

const plural = (count: number, word: string): string => `${count} ${word}${count === 1 ? "" : "s"}`;

export class PicturesPanel {
  readonly #session: Session;
  readonly #body = h("div", { class: "pictures" });
  #drawn: unknown = null;

  constructor(parent: HTMLElement, session: Session) {
    this.#session = session;
    fill(parent, this.#body);
    session.listen((_, what) => {
      if (session.state.tab === "pictures" && (what === "compiled" || this.#drawn !== this.#key))
        void this.#draw();
    });
  }

  get #key(): string {
    const { state, kernel } = this.#session;
    return `${state.gpu} ${kernel?.entry} ${kernel?.ptx.length} ${kernel?.schedule}`;
  }

  async #draw(): Promise<void> {
    if (this.#session.kernel === null) return;
    this.#drawn = this.#key;
    const pictures = await this.#session.about("pictures", { gpu: this.#session.state.gpu });
    if (pictures === null) return;
    fill(
      this.#body,
      this.#plan(pictures),
      this.#tensor(pictures),
      this.#raster(pictures),
      this.#owners(pictures),
      this.#banks(pictures),
    );
  }

  #plan({ plan, planReasons }: Pictures): HTMLElement {
    if (plan === null) {
      const list = h("ul", { class: "diagnostics" });
      showDiagnostics(list, planReasons);
      return list;
    }
    const { roofline, prediction, gpu, occupancy, waves, shared } = plan;
    const points: RooflinePoint[] = [
      { label: "limit", intensity: roofline.intensity, tflops: roofline.attainableTflops, kind: "limit" },
    ];
    if (prediction !== null)
      points.push({
        label: "predicted",
        intensity: roofline.intensity,
        tflops: prediction.tflops,
        kind: "prediction",
      });
    const { m, n, k } = this.#session.state.problem;
    const stored = measuredOf(runs, this.#session.state.problem);
    const here = stored.get(gpu.name) ?? [];
    for (const { size, intensity, tflops } of here) {
      const same = size[0] === m && size[1] === n && size[2] === k;
      points.push({
        label: same ? "measured" : size.join(" x "),
        kind: same ? "measured" : "other",
        ...{ intensity, tflops },
      });
    }
    const facts: (readonly [string, string])[] = [
      [
        "grid",
        `${plan.grid.join(" x ")} of ${plan.block.join(" x ")} threads, cluster ${plan.cluster.join(" x ")}`,
      ],
      [
        "occupancy",
        `${occupancy.blocksPerSm} ${occupancy.blocksPerSm === 1 ? "CTA" : "CTAs"} per SM, limited by ${occupancy.limiters.join(" and ")}`,
      ],
      [
        "waves",
        `${short(waves.waves)} of ${waves.perWave} CTAs, the last ${short(100 * waves.lastWave)} % full`,
      ],
      ["registers", `about ${plan.registers} a thread`],
      [
        "bound",
        prediction === null
          ? "no model of this GPU"
          : `${prediction.bound}, SMs at ${short(prediction.ghz)} GHz, ${short(prediction.watts)} W`,
      ],
    ];
    return h(
      "div",
      { class: "columns" },
      figure(
        `Roofline of ${gpu.name}`,
        "The most that this problem can reach, and what the model predicts of this kernel.",
        rooflineChart(roofline.peakTflops, gpu.memoryGBs, points),
        this.#stored(here[0]?.where ?? null, [...stored.keys()]),
      ),
      prediction === null
        ? null
        : figure(
            `Predicted time: ${short(prediction.timeUs)} µs`,
            "A prediction of the machine model, no measurement.",
            barChart(
              [
                {
                  name: "K loop",
                  value: prediction.parts.chunksUs,
                  text: `${short(prediction.parts.chunksUs)} µs`,
                },
                {
                  name: "prologues and epilogues",
                  value: prediction.parts.tilesUs,
                  text: `${short(prediction.parts.tilesUs)} µs`,
                },
                {
                  name: "launch",
                  value: prediction.parts.launchUs,
                  text: `${short(prediction.parts.launchUs)} µs`,
                },
              ],
              prediction.parts.chunksUs + prediction.parts.tilesUs + prediction.parts.launchUs,
              "Parts of the predicted time",
            ),
          ),
      figure(
        "Waves",
        `${plan.occupancy.blocksPerSm * gpu.sms} CTAs run at a time: ${gpu.sms} SMs with ${plan.occupancy.blocksPerSm} each. ${short(waves.waves)} waves.`,
        waveChart(waves.waves, waves.perWave),
      ),
      figure(
        "Shared memory of a CTA",
        `${bytesText(shared.bytes)} of ${bytesText(shared.limit)}.`,
        barChart(
          shared.tiles.map(({ name, bytes, slots, shape, dtype }) => ({
            name: `%${name} ${dtype}[${shape.join(", ")}] x ${slots}`,
            value: bytes,
            text: bytesText(bytes),
          })),
          shared.limit,
          "Tiles in shared memory",
        ),
      ),
      h(
        "section",
        {},
        h("h3", {}, "Why this schedule"),
        table("Facts of the plan", ["", ""], facts),
        h(
          "ul",
          {},
          plan.remarks.map(({ topic, text }) => h("li", {}, h("strong", {}, topic), `: ${text}`)),
        ),
      ),
    );
  }

  /** Where the stored measurements are from, or which GPU has some. */
  #stored(where: string | null, others: readonly string[]): HTMLElement {
    if (where !== null)
      return h(
        "p",
        { class: "hint" },
        `Rings: stored measurements of this request at other sizes, and of first schedules; ${where}.`,
      );
    const { arch } = this.#session.state;
    const serves = (name: string): boolean =>
      this.#session.world.gpus.some(
        (gpu) => gpu.name === name && gpu.arch.replace(/[af]$/, "") === arch.replace(/[af]$/, ""),
      );
    const other = others.find(serves);
    return other === undefined
      ? h("p", { class: "hint" }, "No measurements are stored of this request.")
      : h(
          "p",
          { class: "hint" },
          "Measurements are stored of another GPU: ",
          h(
            "button",
            { type: "button", class: "link", onclick: () => this.#session.set({ gpu: other }) },
            `show ${other}`,
          ),
        );
  }

  #tensor({ tensor }: Pictures): HTMLElement | null {
    if (tensor.length === 0) return null;
    const parts = tensor.flatMap(({ name, columns, slots }) =>
      Array.from({ length: slots }, (_, slot) => ({
        name: slots > 1 ? `%${name}, slot ${slot}` : `%${name}`,
        value: columns,
        text: `${columns} columns`,
      })),
    );
    return figure(
      "Tensor memory",
      "128 lanes of 512 columns of 32 bits: what the accumulators of this kernel take.",
      barChart(parts, 512, "Columns of tensor memory"),
    );
  }

  #raster({ raster }: Pictures): HTMLElement | null {
    if (raster === null) return null;
    const total = raster.tiles[0] * raster.tiles[1];
    const holder = h("div");
    const said = h("p", { class: "hint", "aria-live": "polite" });
    const slider = h("input", {
      type: "range",
      min: 0,
      max: total,
      value: Math.min(total, raster.wave),
      "aria-label": "Tiles that have been started",
    });
    const draw = (): void => {
      const upTo = slider.valueAsNumber;
      fill(holder, rasterChart(raster, upTo));
      const live = raster.numbers.flatMap((number, i) =>
        number < upTo && number >= upTo - raster.wave ? [i] : [],
      );
      const rows = new Set(live.map((i) => Math.floor(i / raster.shown[1])));
      const columns = new Set(live.map((i) => i % raster.shown[1]));
      said.textContent = `The last ${live.length} of ${upTo} tiles touch ${plural(rows.size, "row")} of A and ${plural(columns.size, "column")} of B: each panel is read ${short((2 * live.length) / Math.max(1, rows.size + columns.size))} times while it is in L2.`;
    };
    slider.addEventListener("input", draw);
    draw();
    return figure(
      "Order of the tiles",
      `${raster.order}, ${raster.tiles.join(" x ")} tiles, ${raster.wave} CTAs at a time. Hues are waves.`,
      slider,
      said,
      holder,
    );
  }

  #owners({ owners }: Pictures): HTMLElement | null {
    if (owners.length === 0) return null;
    const holder = h("div");
    const choice = h(
      "select",
      { "aria-label": "Fragment" },
      owners.map(({ name }, i) => h("option", { value: i }, name)),
    );
    const thread = h("input", {
      type: "number",
      min: 0,
      placeholder: "all",
      class: "narrow",
      "aria-label": "Thread to show alone; all where it is empty",
    });
    const draw = (): void => {
      const picture = owners[Number(choice.value)];
      const mark = thread.valueAsNumber;
      if (picture !== undefined) fill(holder, ownerChart(picture, mark >= 0 ? mark : null));
    };
    choice.addEventListener("change", draw);
    thread.addEventListener("input", draw);
    draw();
    return figure(
      "Fragments: who holds which element",
      "Thread and register of each element: of this kernel's tiles, and of every matrix instruction of the architecture.",
      h("p", { class: "bar" }, choice, h("label", {}, "thread ", thread)),
      holder,
    );
  }

  #banks({ banks }: Pictures): HTMLElement {
    if (banks.length === 0) return h("p", { class: "hint" }, "This kernel has no tile in shared memory.");
    const holder = h("div");
    const choice = h(
      "select",
      { "aria-label": "Access of shared memory" },
      banks.map(({ buffer, access, width }, i) =>
        h("option", { value: i }, `%${buffer}: ${access}, ${width} B a lane`),
      ),
    );
    const draw = (): void => {
      const map = banks[Number(choice.value)];
      if (map !== undefined) fill(holder, bankChart(map), h("p", {}, h("code", {}, map.after.layout)));
    };
    choice.addEventListener("change", draw);
    draw();
    return figure(
      "Shared memory: lanes by banks",
      "Each access of a warp, and columns of the tiles that bulk copies write and matrix instructions read, without and with the padding or swizzle that was chosen.",
      choice,
      holder,
    );
  }
}
