/** What a run reports: the JSON result, its text, and D as a file. */

import {
  batchAxes,
  batchOffset,
  makeStorage,
  operandStrides,
  type Problem,
  readElement,
  sizeOf,
  storageFromBytes,
  writeElement,
} from "@tilewright/core";
import { compilerOf } from "../compiler.ts";
import { sha256 } from "../files/hash.ts";
import { encodeNpy } from "../files/npy.ts";
import type { Session } from "../kit/command.ts";
import { realNumber } from "../ladder/result.ts";
import { formatTime, trim } from "../output/format.ts";
import { briefSchedule } from "../output/schedule.ts";
import { renderPairs } from "../output/table.ts";
import { choiceData, choiceText } from "../tuned/choice.ts";
import type { RunDevice } from "./device.ts";
import { type Execution, multiplyAdds } from "./execute.ts";
import type { Prepared } from "./prepare.ts";
import type { RunResult } from "./result.ts";

/** ` by s4 in groups of 128 with zero points`; nothing where B has elements. */
const weightsText = ({ b, weights }: Problem): string =>
  weights === undefined
    ? ""
    : ` by ${b.dtype} in groups of ${weights.group}${weights.zeros ? " with zero points" : ""}`;

/** D in C order as a .npy file. A batch becomes the first axis. */
export function encodeResult(problem: Problem, bytes: Uint8Array): Uint8Array {
  const { m, n, d, batch } = problem;
  const count = batch.kind === "strided" ? batch.count : 1;
  const axes = batchAxes(problem, "d");
  const stored = storageFromBytes(d.dtype, bytes, Math.floor(bytes.byteLength / sizeOf(d.dtype)));
  const dense = makeStorage(d.dtype, count * m * n);
  const [rowStride, colStride] = operandStrides(d);
  for (let item = 0; item < count; item++) {
    const start = batchOffset(axes, item);
    for (let row = 0; row < m; row++)
      for (let col = 0; col < n; col++)
        writeElement(
          d.dtype,
          dense,
          (item * m + row) * n + col,
          readElement(d.dtype, stored, start + row * rowStride + col * colStride),
        );
  }
  return encodeNpy(batch.kind === "strided" ? [count, m, n] : [m, n], d.dtype, dense);
}

/** What --json prints. */
export function resultOf(
  prepared: Prepared,
  device: Pick<RunDevice, "kind" | "name">,
  execution: Execution,
): RunResult {
  const { check, hazards, timeMs, wrong } = execution;
  const { artifact } = prepared;
  return {
    ok: wrong.length === 0,
    arch: artifact.target.arch,
    device: device.kind,
    deviceName: device.name,
    problem: artifact.problem as RunResult["problem"],
    schedule: artifact.schedule ?? artifact.manifest.plan.schedule,
    choice: choiceData(artifact),
    error:
      check === null
        ? null
        : { maxAbs: realNumber(check.maxAbs), boundRatio: realNumber(check.boundRatio), nan: check.nan },
    hazards: hazards as RunResult["hazards"],
    timeMs,
    ptxSha256: sha256(artifact.ptx),
  };
}

/** JSON has no infinities. */
/** What a terminal shows. */
export function render(
  session: Session,
  prepared: Prepared,
  device: Pick<RunDevice, "kind" | "name">,
  execution: Execution,
): string {
  const { problem, target, backend, manifest, choice, schedule, source } = prepared.artifact;
  const { check, hazards, timeMs, wrong } = execution;
  const verdict =
    wrong.length > 0
      ? session.paint("red", "wrong")
      : check === null
        ? session.paint("green", "ran (not checked)")
        : check.nan < check.elements
          ? session.paint("green", "correct")
          : session.paint("yellow", "ran; nothing to check: all of D is NaN, by the reference as well");
  const work = multiplyAdds(problem, source);
  const grouped = problem.batch.kind === "grouped";
  const speed =
    device.kind !== "cuda"
      ? " of emulation"
      : grouped
        ? ""
        : `, ${trim((2 * work) / (timeMs * 1e9))} TFLOP/s`;
  return renderPairs([
    ["result", verdict],
    [
      "problem",
      source !== undefined
        ? (prepared.attention ?? `@${source.name}`)
        : `${problem.batch.kind === "grouped" ? `${problem.batch.count} groups of up to ` : ""}${problem.m} x ${problem.n} x ${problem.k}, ${problem.a.dtype}${weightsText(problem)}`,
    ],
    ["arch", `${target.arch} (${backend})`],
    [
      "schedule",
      `${briefSchedule(compilerOf(session.context), backend, schedule ?? manifest.plan.schedule)} (${choiceText(choice)})`,
    ],
    ["device", device.name],
    [
      "error",
      check === null
        ? "not checked"
        : [
            `${trim(check.boundRatio)} of the bound, at most ${Number(check.maxAbs.toPrecision(3))}`,
            ...(check.nan === 0
              ? []
              : [`${check.nan} of ${check.elements} elements are NaN, as they should be`]),
          ].join("; "),
    ],
    [
      "hazards",
      device.kind === "cuda"
        ? "not looked for on a GPU"
        : hazards.length === 0
          ? "none"
          : String(hazards.length),
    ],
    ["time", `${formatTime(timeMs)}${speed}`],
  ]);
}
