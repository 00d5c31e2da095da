/** `tilewright emulate`: run any PTX kernel on the emulator as a launch file says. */
import { dirname, resolve } from "node:path";
import type { Finding } from "@tilewright/emulator";
import {
  type Checked,
  type Diagnostic,
  diagnosticsOfIssues,
  err,
  ok,
  storageFromBytes,
} from "@tilewright/ir";
import {
  type Device,
  type DeviceBuffer,
  type LaunchArgument,
  type LaunchResult,
  openDevice,
} from "@tilewright/runtime";
import { z } from "zod";
import { codes, problemWith } from "../codes.ts";
import { located } from "../compile/source.ts";
import type { Context } from "../context.ts";
import { checksOf, emulationFlags, hazardFlag, ordersOf } from "../emulation/flags.ts";
import { counterPairs, diagnoseHazard, hazardsOf, mergeFindings } from "../emulation/report.ts";
import { writeFiles } from "../files/atomic.ts";
import { readJson } from "../files/json.ts";
import { encodeNpy } from "../files/npy.ts";
import { readText } from "../files/read.ts";
import { countOf } from "../files/tensor.ts";
import { defineCommand, type Session } from "../kit/command.ts";
import { exitCodes } from "../kit/exit.ts";
import { argument, text } from "../kit/flags.ts";
import { type HostBuffer, makeBuffers } from "../launch/buffers.ts";
import { type BufferCheck, compareBuffer, type Expectations, loadExpectations } from "../launch/compare.ts";
import { type Launch, launchSchema, threeOf } from "../launch/schema.ts";
import { formatTime, plural } from "../output/format.ts";
import { renderPairs, renderTable } from "../output/table.ts";

const args = z.strictObject({
  ptx: argument("PTX text of the module; - is standard input", "KERNEL.ptx"),
  launch: text("how to launch it: tilewright schema launch", { hint: "LAUNCH.json" }),
  check: hazardFlag(),
  ...emulationFlags,
});
type Args = z.output<typeof args>;

interface Prepared {
  readonly ptx: string;
  readonly launch: Launch;
  readonly buffers: readonly HostBuffer[];
  readonly expectations: Expectations;
  /** Files of the launch are relative to this folder. */
  readonly folder: Context;
}

function prepare(context: Context, { ptx: ptxPath, launch: launchPath }: Args): Checked<Prepared> {
  if (launchPath === undefined)
    return err([
      problemWith(codes.missing, "--launch", "--launch is needed: grid, block, buffers and parameters", {
        hint: "tilewright schema launch describes the file",
      }),
    ]);
  const ptx = readText(context, ptxPath);
  const json = readJson(context, launchPath);
  if (!ptx.ok || !json.ok) return err([...(ptx.ok ? [] : ptx.error), ...(json.ok ? [] : json.error)]);
  const parsed = launchSchema.safeParse(json.value);
  if (!parsed.success) {
    const keys = () => Object.keys(launchSchema.shape);
    return err(diagnosticsOfIssues(parsed.error.issues, json.value, codes.badJson.code, launchPath, keys));
  }
  const launch = parsed.data;
  const folder =
    launchPath === "-" ? context : { ...context, cwd: dirname(resolve(context.cwd, launchPath)) };
  const buffers = makeBuffers(folder, launch);
  if (!buffers.ok) return buffers;
  const expectations = loadExpectations(folder, launch, buffers.value);
  if (!expectations.ok) return expectations;
  return ok({ ptx: ptx.value, launch, buffers: buffers.value, expectations: expectations.value, folder });
}

/** One launch, and what its buffers held afterwards. */
interface Run {
  readonly order: string;
  readonly result: LaunchResult;
  readonly checks: readonly BufferCheck[];
  /** Bytes of the buffers that are written to files. */
  readonly contents: ReadonlyMap<string, Uint8Array>;
}

function argumentsOf(launch: Launch, memory: ReadonlyMap<string, DeviceBuffer>): readonly LaunchArgument[] {
  return launch.params.map((param): LaunchArgument => {
    if (typeof param === "number") return param;
    if ("int" in param) return BigInt(param.int);
    if ("bytes" in param) return Uint8Array.from(Buffer.from(param.bytes, "hex"));
    const buffer = memory.get(param.buffer);
    if (buffer === undefined) throw new TypeError(`no buffer ${param.buffer}`);
    return param.offset === 0 ? buffer : buffer.address + BigInt(param.offset);
  });
}

/** Fresh buffers, one launch, and the contents of the buffers that matter afterwards. */
function launchOnce(
  device: Device,
  prepared: Prepared,
  args: Args,
  order: "eager" | "lazy" | "random",
): Checked<Run> {
  const { launch, buffers, expectations } = prepared;
  const memory = new Map<string, DeviceBuffer>();
  try {
    for (const buffer of buffers) {
      const allocated = device.alloc(buffer.size);
      if (!allocated.ok) return allocated;
      memory.set(buffer.name, allocated.value);
      const written = buffer.initial === null ? ok(true) : allocated.value.write(buffer.initial);
      if (!written.ok) return written;
    }
    const module = device.load(prepared.ptx);
    if (!module.ok) return module;
    const kernel = module.value.kernel(launch.entry);
    if (!kernel.ok) return kernel;
    const result = kernel.value.launch({
      grid: threeOf(launch.grid),
      block: threeOf(launch.block),
      ...(launch.cluster === undefined ? {} : { cluster: threeOf(launch.cluster) }),
      dynamicSmem: launch.dynamicSmem,
      args: argumentsOf(launch, memory),
      order,
      seed: args.seed,
      checks: checksOf(args.check),
      ...(launch.fuel === undefined ? {} : { fuel: launch.fuel }),
    });
    if (!result.ok) return result;
    const contents = new Map<string, Uint8Array>();
    const checks: BufferCheck[] = [];
    for (const buffer of buffers) {
      const bytes = memory.get(buffer.name)?.read();
      if (bytes === undefined) continue;
      if (!bytes.ok) return bytes;
      if (Object.hasOwn(launch.outputs, buffer.name)) contents.set(buffer.name, bytes.value);
      const check = compareBuffer(buffer, bytes.value, expectations);
      if (check !== null) checks.push(check);
    }
    return ok({ order, result: result.value, checks, contents });
  } finally {
    for (const buffer of memory.values()) buffer.free();
  }
}

/** What is wrong with the runs: hazards, launches given up, numbers. */
function verdict(runs: readonly Run[], findings: readonly Finding[], file: string): readonly Diagnostic[] {
  const found = hazardsOf(findings).map((finding) => diagnoseHazard(finding, file));
  for (const { order, result, checks } of runs) {
    if (!result.completed)
      found.push(problemWith(codes.incomplete, order, `the launch was given up (order ${order})`));
    for (const { buffer, failures, elements, first, maxAbs } of checks) {
      if (failures === 0 || first === null) continue;
      const where = `element ${first.index} is ${first.actual} where ${first.expected} is expected`;
      found.push(
        problemWith(
          codes.wrongNumbers,
          buffer,
          `${failures} of ${plural(elements, "element")} are off by up to ${maxAbs} (order ${order}); ${where}`,
        ),
      );
    }
  }
  return found;
}

function outputFiles(prepared: Prepared, run: Run | undefined) {
  return prepared.buffers.flatMap((buffer) => {
    const bytes = run?.contents.get(buffer.name);
    const path = prepared.launch.outputs[buffer.name];
    if (bytes === undefined || path === undefined || buffer.typed === null) return [];
    const { dtype, shape } = buffer.typed;
    return [{ path, data: encodeNpy(shape, dtype, storageFromBytes(dtype, bytes, countOf(shape))) }];
  });
}

function render(session: Session, runs: readonly Run[], files: readonly string[]): string {
  const rows = runs.map(({ order, result, checks }) => {
    const hazards = hazardsOf(result.findings).length;
    const wrong = checks.reduce((sum, { failures }) => sum + failures, 0);
    return [
      order,
      result.completed ? "yes" : { text: "no", style: "red" as const },
      hazards === 0
        ? { text: "none", style: "green" as const }
        : { text: String(hazards), style: "red" as const },
      checks.length === 0 ? "not checked" : wrong === 0 ? "as expected" : `${wrong} wrong`,
      formatTime(result.timeMs),
    ];
  });
  const heads = ["order", "completed", "hazards", "numbers", "time"].map((head) => ({ head }));
  const counters = runs[0]?.result.counters ?? null;
  const details = counters === null ? "" : `\n${renderPairs(counterPairs(counters))}`;
  const written = files.length === 0 ? "" : `\n${files.map((file) => `wrote ${file}\n`).join("")}`;
  return renderTable(heads, rows, session.paint) + details + written;
}

export const emulate = defineCommand({
  name: "emulate",
  summary: "run any PTX kernel on the CPU and look for hazards",
  about: `Reads PTX text, from this compiler or any other, and a launch file with grid, block, buffers and parameters
(tilewright schema launch). Buffers are filled with numbers by seed or from .npy and safetensors files, results are
written to .npy files and compared with expected ones. Paths in the launch file are relative to its folder.
Ends with exit code 5 when numbers are wrong, a hazard was found, or the launch was given up.`,
  args,
  positionals: ["ptx"],
  examples: [
    { what: "run a kernel, looking for every hazard", line: "emulate kernel.ptx --launch launch.json" },
    {
      what: "once in each completion order",
      line: "emulate kernel.ptx --launch launch.json --order all --seed 7",
    },
    { what: "races and barriers only", line: "emulate kernel.ptx --launch launch.json --check race,barrier" },
  ],
  async run(session, args) {
    const prepared = prepare(session.context, args);
    if (!prepared.ok) return session.fail(prepared.error);
    // What the text is for; a text without it is for the loader to refuse.
    const arch = /^\s*\.target\s+(sm_\w+)/m.exec(prepared.value.ptx)?.[1] ?? "sm_70";
    const device = await openDevice({ kind: "emulator", arch });
    if (!device.ok) return session.fail(device.error);
    const runs: Run[] = [];
    try {
      for (const order of ordersOf(args.order)) {
        const run = session.working(`emulating ${prepared.value.launch.entry} (order ${order})`, () =>
          launchOnce(device.value, prepared.value, args, order),
        );
        if (!run.ok) return session.fail(located(run.error, args.ptx));
        runs.push(run.value);
      }
    } finally {
      device.value.close();
    }
    const findings = mergeFindings(runs.map(({ result }) => result.findings));
    const wrong = verdict(runs, findings, args.ptx);
    const files = writeFiles(prepared.value.folder.cwd, outputFiles(prepared.value, runs[0]));
    if (!files.ok) return session.fail(files.error);
    const summary = runs.map(({ order, result, checks }) => ({
      order,
      completed: result.completed,
      timeMs: result.timeMs,
      counters: result.counters,
      checks,
    }));
    session.result(
      {
        ok: wrong.length === 0,
        entry: prepared.value.launch.entry,
        arch,
        runs: summary,
        findings,
        files: files.value,
      },
      () => render(session, runs, files.value),
    );
    if (wrong.length === 0) return exitCodes.ok;
    return session.report(wrong);
  },
});
