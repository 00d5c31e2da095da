/** Schedules that stand to choose, beside the one in use: what the model predicts of each, by cause, and what it loses by. */
import type { Candidate } from "../worker/compiling.ts";
import { fill, h, s, short, table } from "./dom.ts";
import type { Session } from "./session.ts";

/** Schedules of each backend. */
const count = 6;

/** Parts of the predicted time that can be seen, the longest first. */
const partsOf = ({ causes }: Candidate): Candidate["causes"] =>
  causes.filter(([, us]) => us > 0.05).toSorted(([, a], [, b]) => b - a);

/** The predicted time as a bar of its causes; `most`: microseconds of the whole width. */
function costBar(one: Candidate, names: readonly string[], most: number): SVGElement {
  const width = 160;
  let x = 0;
  const said = partsOf(one)
    .map(([cause, us]) => `${cause} ${short(us)} µs`)
    .join(", ");
  return s(
    "svg",
    { viewBox: `0 0 ${width} 12`, width, height: 12, role: "img", "aria-label": said, class: "cost" },
    s("title", {}, said),
    one.causes.map(([cause, us]) => {
      const at = x;
      x += (width * us) / most;
      return s("rect", {
        ...{ x: at, y: 0, width: Math.max(0, Math.min(x, width) - at), height: 12 },
        class: `cause-${names.indexOf(cause) % 10}`,
      });
    }),
  );
}

export class ChoicesPanel {
  readonly #session: Session;
  readonly #body = h("div", { class: "choices" });
  #shown: unknown = null;

  constructor(parent: HTMLElement, session: Session) {
    this.#session = session;
    fill(parent, this.#body);
    session.listen((_, what) => {
      if (session.state.tab === "choices" && (what === "compiled" || this.#shown !== this.#key))
        void this.#draw();
    });
  }

  get #key(): string {
    const { state, kernel } = this.#session;
    return `${state.gpu} ${kernel?.entry} ${kernel?.schedule} ${JSON.stringify(state.problem)}`;
  }

  /** Only while the panel is open: it compiles several kernels. */
  async #draw(): Promise<void> {
    if (this.#session.kernel === null) return;
    this.#shown = this.#key;
    if (this.#body.childElementCount === 0)
      fill(this.#body, h("p", { class: "hint" }, "pricing schedules …"));
    const found = await this.#session.about("candidates", { gpu: this.#session.state.gpu, count });
    const sorted = found.toSorted(
      (a, b) => (a.timeUs ?? Number.POSITIVE_INFINITY) - (b.timeUs ?? Number.POSITIVE_INFINITY),
    );
    const names = [...new Set(sorted.flatMap((one) => partsOf(one).map(([cause]) => cause)))];
    // Twice the shortest: what takes longer runs out of its bar, and the others can be told apart.
    const most = 2 * (sorted[0]?.timeUs ?? 1);
    fill(
      this.#body,
      h(
        "p",
        { class: "hint" },
        `The first ${count} schedules of each backend that serves the request, the shortest predicted time first; a prediction of the machine model, no measurement. `,
        "A backend of lower rank is taken where the model predicts its kernel faster by more than the model's error.",
      ),
      h(
        "p",
        { class: "legend", "aria-label": "Causes" },
        names.map((name, i) => h("span", {}, h("i", { class: `cause-${i % 10}` }), name)),
      ),
      table(
        "Schedules that stand to choose",
        ["backend", "µs", "cost", "bound by", "loses by", "waves", "CTAs/SM", "differs", ""],
        sorted.map((one) => this.#row(one, names, most)),
      ),
    );
  }

  #row(one: Candidate, names: readonly string[], most: number) {
    return [
      one.backend,
      one.timeUs === null ? "–" : short(one.timeUs),
      one.timeUs === null ? "–" : costBar(one, names, most),
      one.bound ?? "–",
      one.why === "taken" ? h("strong", {}, one.why) : one.why,
      short(one.waves),
      one.blocksPerSm === null ? "–" : String(one.blocksPerSm),
      h("code", {}, one.differs === "" ? "as the first" : one.differs),
      h(
        "button",
        {
          type: "button",
          class: "small",
          onclick: () => this.#session.set({ backend: one.backend, schedule: one.schedule }),
        },
        "take",
      ),
    ];
  }
}
