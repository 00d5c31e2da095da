/** The running worker: a kernel on the emulator in one or more completion orders, against float64. */

import {
  decodeArray,
  findTarget,
  operandStrides,
  type Problem,
  type Reference,
  readManifest,
  referenceGemm,
  sizeOf,
  storageFromBytes,
} from "@tilewright/core";
import { createEmulator } from "@tilewright/emulator";
import { parseAxisProgram, referenceProgram } from "@tilewright/ir";
import { EmulatorDevice, type GemmResult, limitsOf, runGemm } from "@tilewright/runtime";
import { checkResult, randomInputs } from "tilewright";
import { type Heat, heatOf } from "../model/heat.ts";
import { judgeForeign, launchTemplate } from "./foreign.ts";
import { serve } from "./rpc.ts";
import type { Order, OrderReport, RunAsk, RunReport } from "./running.ts";
import { beginLog, perfetto, timelineView } from "./timeline.ts";

const none = (reasons: RunReport["reasons"], started: number): RunReport => ({
  reasons,
  orders: [],
  counters: null,
  heat: null,
  ms: performance.now() - started,
  differing: [],
});

/** Each element's error over its bound, of the first problem of a batch. */
function heatOfRun(problem: Problem, d: Uint8Array, reference: Reference): Heat {
  const { dtype } = problem.d;
  const values = decodeArray(dtype, storageFromBytes(dtype, d, Math.floor(d.byteLength / sizeOf(dtype))));
  const [rowStride, columnStride] = operandStrides(problem.d);
  // Of many rows a sample is compared.
  const { rows } = reference;
  return heatOf(rows.length, problem.n, (at, column) => {
    const row = rows[at] ?? 0;
    const i = at * problem.n + column;
    const [expected, bound] = [reference.d.values[i] ?? 0, reference.d.bounds[i] ?? 0];
    const error = Math.abs((values[row * rowStride + column * columnStride] ?? Number.NaN) - expected);
    return error === 0 ? 0 : error / bound;
  });
}

const same = (a: Uint8Array, b: Uint8Array): boolean =>
  a.length === b.length && a.every((byte, i) => byte === b[i]);

function run(ask: RunAsk, progress: (value: unknown) => void): RunReport {
  const started = performance.now();
  const manifest = readManifest(JSON.parse(ask.manifest));
  if (!manifest.ok) return none(manifest.error, started);
  const target = findTarget(ask.arch);
  if (!target.ok) return none(target.error, started);
  const problem = manifest.value.request;
  progress("random matrices");
  const inputs = randomInputs(problem, { distribution: { kind: "normal" }, seed: ask.seed });
  const results: { readonly order: Order; readonly result: GemmResult }[] = [];
  for (const [i, order] of ask.orders.entries()) {
    progress(`order ${order}, ${i + 1} of ${ask.orders.length}`);
    const device = new EmulatorDevice(createEmulator(), {
      ...{ arch: null, numSms: 8, limits: limitsOf(target.value), note: null },
    });
    const result = runGemm(device, { ptx: ask.ptx, manifest: manifest.value }, inputs.host, {
      ...{ order, seed: ask.seed },
      // One log is enough for a picture: that of the first order.
      ...(i === 0 ? { trace: beginLog().sink } : {}),
    });
    device.close();
    if (!result.ok) return none(result.error, started);
    results.push({ order, result: result.value });
  }
  progress("float64 reference");
  const source = ask.source === null ? null : parseAxisProgram(ask.source);
  if (source?.ok === false) return none(source.error, started);
  const reference =
    source === null
      ? referenceGemm(problem, inputs.reference)
      : referenceProgram(source.value, inputs.reference);
  const reports = results.map(({ order, result }): OrderReport => {
    const { completed, timeMs, findings } = result;
    const check = completed ? checkResult(problem, result, reference) : null;
    return {
      ...{ order, completed, timeMs, findings },
      boundRatio: check?.boundRatio ?? null,
      maxAbs: check?.maxAbs ?? 0,
      failures: check?.failures ?? 0,
      worst: check?.worst ?? null,
    };
  });
  const [first] = results;
  const worst = results.reduce(
    (a, b) => {
      const ratio = ({ order }: { readonly order: Order }): number =>
        reports.find((report) => report.order === order)?.boundRatio ?? Number.POSITIVE_INFINITY;
      return ratio(b) > ratio(a) ? b : a;
    },
    results[0] as (typeof results)[number],
  );
  return {
    reasons: [],
    orders: reports,
    counters: first?.result.counters ?? null,
    heat: problem.d.dtype === undefined ? null : heatOfRun(problem, worst.result.d, reference),
    ms: performance.now() - started,
    differing: results.flatMap(({ order, result }) =>
      first !== undefined && !same(result.d, first.result.d) ? [order] : [],
    ),
  };
}

const handlers = { run, timeline: timelineView, perfetto, foreign: judgeForeign, template: launchTemplate };

export type RunWorker = typeof handlers;

serve(handlers);
