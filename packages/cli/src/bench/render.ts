/** Records and changes as tables for people. */
import type { Paint } from "../output/colour.ts";
import { trim } from "../output/format.ts";
import { type Column, type Row, renderTable } from "../output/table.ts";
import type { Change } from "./compare.ts";
import type { BenchRecord, RecordContender, RecordRatio } from "./record.ts";
import { shapeText } from "./shapes.ts";

const right = (head: string): Column => ({ head, align: "right" });

const columns: readonly Column[] = [
  { head: "shape" },
  { head: "regime" },
  { head: "kernel" },
  right("us"),
  right("IQR %"),
  right("TFLOP/s"),
  right("peak %"),
  right("at clock %"),
  right("graph us"),
  { head: "ratio to peer [95 %]" },
];

const percent = (value: number | null): string => (value === null ? "" : value.toFixed(1));

const ratioText = ({ value, low, high }: RecordRatio): string =>
  `${value.toFixed(3)} [${low.toFixed(3)} ${high.toFixed(3)}]`;

function rowOf(record: BenchRecord, contender: RecordContender, head: boolean): Row {
  const { us } = contender;
  const ratios = record.ratios
    .filter(({ candidate }) => candidate === contender.name)
    .map((ratio) => `${ratioText(ratio)} ${ratio.peer}`)
    .join(", ");
  return [
    head ? shapeText(record.problem) : "",
    head ? record.regime : "",
    contender.name,
    trim4(us.median),
    ((100 * (us.q3 - us.q1)) / us.median).toFixed(1),
    trim(contender.tflops),
    percent(contender.percentOfPeak),
    percent(contender.percentAtClock),
    contender.graphUs === null ? "" : trim4(contender.graphUs.median),
    ratios,
  ];
}

/** Four digits: ratios are told to three. */
const trim4 = (value: number): string => String(Number(value.toPrecision(4)));

export function renderRecords(records: readonly BenchRecord[], paint: Paint): string {
  const rows = records.flatMap((record) =>
    record.contenders.map((contender, index) => rowOf(record, contender, index === 0)),
  );
  return renderTable(columns, rows, paint);
}

/** Clocks and power of one record, in a line. */
export function stateText({ state, sets, inputs, pauseUs }: BenchRecord): string {
  const parts = [`inputs ${inputs}`, `${sets} buffer sets`];
  const longest = Math.max(0, ...pauseUs);
  if (longest > 0) parts.push(`pauses up to ${trim(longest)} us`);
  if (state?.smMHz) parts.push(`SM ${state.smMHz.min}/${state.smMHz.median}/${state.smMHz.max} MHz`);
  if (state?.watts) parts.push(`${trim(state.watts.median)} W (at most ${trim(state.watts.max)})`);
  if (state?.celsius) parts.push(`${state.celsius.max} C`);
  if (state !== null && state.reasons.length > 0) parts.push(`clock held by ${state.reasons.join(", ")}`);
  return parts.join(", ");
}

export function renderChanges(changes: readonly Change[], paint: Paint): string {
  const head: readonly Column[] = [
    { head: "shape" },
    { head: "regime" },
    { head: "kernel" },
    { head: "by" },
    right("old"),
    right("new"),
    right("change %"),
    right("noise %"),
    { head: "verdict" },
  ];
  const number = (value: number | null): string => (value === null ? "" : trim4(value));
  const rows = changes.map((change): Row => {
    const by = change.peer === null ? "us" : `ratio to ${change.peer}`;
    const verdict = {
      text: change.verdict,
      ...(change.verdict === "slower"
        ? ({ style: "red" } as const)
        : change.verdict === "faster"
          ? ({ style: "green" } as const)
          : {}),
    };
    return [
      change.shape,
      change.regime,
      change.name,
      by,
      number(change.old),
      number(change.new),
      change.change === null ? "" : (100 * (change.change - 1)).toFixed(2),
      change.noise === null ? "" : (100 * change.noise).toFixed(2),
      verdict,
    ];
  });
  return renderTable(head, rows, paint);
}
