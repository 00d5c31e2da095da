/** Ladders as text. */
import { printProblem, problemSchema } from "@tilewright/core";
import type { Paint } from "../output/colour.ts";
import { formatTime, trim } from "../output/format.ts";
import { type Column, type Row, renderTable } from "../output/table.ts";
import type { LadderOutcome, LadderResult, StepOutcome } from "./result.ts";

const right = (head: string): Column => ({ head, align: "right" });
const kib = (bytes: number): string => `${trim(bytes / 1024)} KiB`;
const grouped = (count: number): string => count.toLocaleString("en-US");

export function renderLadders({ arch, deviceName, device, ladders }: LadderResult, paint: Paint): string {
  return ladders
    .map((ladder) => {
      const problem = problemSchema.parse(ladder.problem);
      const title = `${paint("bold", `${ladder.name} (${ladder.backend}): ${ladder.summary}`)}\n`;
      const where = `${ladder.attention ?? printProblem(problem)}\n${arch} on ${deviceName}\n`;
      const table = tables[device](ladder, paint);
      const list = ladder.steps.map((step, i) => describeStep(step, ladder.steps[i - 1])).join("");
      return `${title}${where}\n${table}\n${list}`;
    })
    .join("\n");
}

/** What a step changes, why, and what the machine model makes of it. */
function describeStep(
  { name, change, summary, predicted }: StepOutcome,
  before: StepOutcome | undefined,
): string {
  const lines = [`${name}: ${change}`, `  ${summary}`];
  if (predicted !== null) {
    const { gpu, size, us, tflops } = predicted;
    const gain = before?.predicted == null ? "" : `, x${trim(before.predicted.us / us)}`;
    lines.push(
      `  predicted on ${gpu} at ${size.join(" x ")}: ${formatTime(us / 1000)}, ${trim(tflops)} TFLOP/s${gain}`,
    );
  }
  return `${lines.join("\n")}\n`;
}

/** The cell of a step that did not run. */
const refusal = ({ refused }: StepOutcome): Row => [
  { text: `not legal here: ${refused?.join("; ") ?? "did not run"}`, style: "yellow" },
];

const firstCells = ({ name, smemBytes }: StepOutcome, index: number): Row => [
  String(index + 1),
  name,
  smemBytes === null ? "" : kib(smemBytes),
];

/** A count, and what part of it counts against the step: conflicts of all wavefronts, waits that blocked. */
const withShare = (count: number, share: number): string =>
  count === 0 ? "0" : `${grouped(count)} (${trim(100 * share)} %)`;

function countedTable({ steps }: LadderOutcome, paint: Paint): string {
  const columns: readonly Column[] = [
    right(""),
    { head: "step" },
    right("shared"),
    right("instr."),
    right("mma"),
    right("conflicts"),
    right("shared read"),
    right("shared written"),
    right("global read"),
    right("global written"),
    right("tensor read"),
    right("tensor written"),
    right("barriers"),
    right("waits"),
    right("ring"),
    right("error/bound"),
    right("hazards"),
  ];
  const rows = steps.map((step, index): Row => {
    const { counted } = step;
    if (counted === null) return [...firstCells(step, index), ...refusal(step)];
    const share = counted.sharedWavefronts === 0 ? 0 : counted.sharedConflicts / counted.sharedWavefronts;
    return [
      ...firstCells(step, index),
      grouped(counted.warpInstructions),
      grouped(counted.matrixInstructions),
      {
        text: withShare(counted.sharedConflicts, share),
        style: counted.sharedConflicts === 0 ? "green" : "yellow",
      },
      kib(counted.sharedBytesRead),
      kib(counted.sharedBytesWritten),
      kib(counted.globalBytesRead),
      kib(counted.globalBytesWritten),
      counted.tensorBytesRead === 0 ? "" : kib(counted.tensorBytesRead),
      counted.tensorBytesWritten === 0 ? "" : kib(counted.tensorBytesWritten),
      grouped(counted.barriers),
      withShare(counted.waits, counted.waits === 0 ? 0 : counted.waitsBlocked / counted.waits),
      counted.ring === null ? "" : `${counted.ring.filled.toFixed(2)} of ${counted.ring.slots}`,
      typeof counted.boundRatio === "number" ? trim(counted.boundRatio) : counted.boundRatio,
      { text: String(counted.hazards), style: counted.hazards === 0 ? "green" : "red" },
    ];
  });
  return renderTable(columns, rows, paint);
}

function predictedTable({ steps }: LadderOutcome, paint: Paint): string {
  const columns = [
    right(""),
    { head: "step" },
    right("shared"),
    right("us"),
    right("TFLOP/s"),
    right("gain"),
  ];
  const rows = steps.map((step, index): Row => {
    const { predicted } = step;
    if (predicted === null)
      return [...firstCells(step, index), ...(step.refused === null ? ["no prediction"] : refusal(step))];
    const before = steps[index - 1]?.predicted;
    return [
      ...firstCells(step, index),
      predicted.us.toFixed(1),
      predicted.tflops.toFixed(1),
      before == null ? "" : `x${trim(before.us / predicted.us)}`,
    ];
  });
  return renderTable(columns, rows, paint);
}

function timedTable({ steps, peer }: LadderOutcome, paint: Paint): string {
  const columns: readonly Column[] = [
    right(""),
    { head: "step" },
    right("shared"),
    right("us"),
    right("TFLOP/s"),
    right("gain"),
    right("of cuBLASLt"),
    right("error/bound"),
  ];
  let before: number | null = null;
  const rows = steps.map((step, index): Row => {
    const { timed } = step;
    if (timed === null) return [...firstCells(step, index), ...refusal(step)];
    const gain = before === null ? "" : `x${trim(before / timed.us)}`;
    before = timed.us;
    return [
      ...firstCells(step, index),
      timed.us.toFixed(1),
      timed.tflops.toFixed(1),
      gain,
      peer === null ? "" : (peer.us / timed.us).toFixed(3),
      typeof timed.boundRatio === "number" ? trim(timed.boundRatio) : timed.boundRatio,
    ];
  });
  const peers: readonly Row[] =
    peer === null ? [] : [["", "cuBLASLt", "", peer.us.toFixed(1), peer.tflops.toFixed(1), "", "1"]];
  return renderTable(columns, [...rows, ...peers], paint);
}

const tables = { cuda: timedTable, emulator: countedTable, none: predictedTable } as const;
