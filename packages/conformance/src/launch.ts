/** Running an artefact on a device, from pointers as badly aligned as the problem allows to what lies around the results. */
import {
  bytesOfStorage,
  type DType,
  evaluateConstraints,
  evaluateLaunchExpr,
  expertAxisOf,
  expertRowsData,
  expertRowsOf,
  fixedProblem,
  formatDiagnostic,
  given,
  groupConstraints,
  groupTable,
  type LaunchEnvironment,
  launchEnvironment,
  launchOfGroups,
  type OperandData,
  ok,
  type Problem,
  packedSize,
  rowIndexOf,
  SCALE_ALIGN,
  sizeOf,
  storageFromBytes,
  storesMatrix,
  vectorAlign,
} from "@tilewright/core";
import { type Artifact, TENSOR_ALIGN } from "@tilewright/ir";
import {
  type Device,
  type DeviceBuffer,
  type DeviceModule,
  deviceOperands,
  type ExpertSlice,
  expertOperands,
  type LaunchRequest,
  launchPlanned,
  linesOfSlice,
  type MemoryPlace,
  planLaunch,
} from "@tilewright/runtime";
import { must } from "./build.ts";
import { type CaseData, operandMask, stepMask } from "./data.ts";
import type { Stored } from "./judge.ts";

/** What lies in D and around it before a launch. NaN in every float type; what no matrix covers must still be there afterwards. */
const SENTINEL = 0xff;

export interface RunOptions {
  readonly order?: NonNullable<LaunchRequest["order"]>;
  readonly seed?: number;
  /** Architecture whose tensor cores the emulator computes as; the module's target unless given. */
  readonly arithmetic?: string;
  /** D is C's memory. */
  readonly inPlace?: boolean;
  /** C is not written before the launch: a kernel that reads it is found out (on the emulator by a finding, elsewhere by NaN). */
  readonly withoutC?: boolean;
  /** The problem of this launch, where the artefact leaves sizes to it; the artefact's own otherwise. */
  readonly problem?: Problem;
}

export interface Run extends Stored {
  /** Findings of the emulator, launches that did not end, bytes written outside of the matrices: as sentences. */
  readonly faults: readonly string[];
}

/** A buffer whose contents begin `offset` bytes after its start: at an address of exactly the alignment that the operand promises. */
interface Placed {
  readonly buffer: DeviceBuffer;
  readonly offset: number;
  readonly address: bigint;
}

/** Alignments from here on are what every allocation has. */
const ALLOCATION_ALIGN = 256;

/** An artefact, loaded; each call of `run` launches it on fresh buffers, but on one workspace, which the kernel must leave as it wants to find it. */
export class Session {
  readonly #device: Device;
  readonly #artifact: Artifact;
  readonly #module: DeviceModule;
  #workspace: DeviceBuffer | null = null;

  /** Throws where the device does not take the text. */
  constructor(device: Device, artifact: Artifact) {
    this.#device = device;
    this.#artifact = artifact;
    this.#module = must(device.load(artifact.ptx));
  }

  close(): void {
    this.#workspace?.free();
    this.#module.unload();
  }

  run(data: CaseData, options: RunOptions = {}): Run {
    const { problem, env } = this.#setting(data, options);
    const placed = new Map<string, Placed>();
    try {
      this.#placeOperands(problem, data, options, placed);
      const faults = this.#launch(env, placed, options);
      return this.#collect(problem, placed, faults);
    } finally {
      for (const { buffer } of placed.values()) buffer.free();
    }
  }

  /**
   * The same launch `times` times, on the same buffers and workspace, D spoiled before each: the first launch, and how many of the others left
   * other bytes in D than it did.
   */
  repeat(
    data: CaseData,
    times: number,
    options: RunOptions = {},
  ): { readonly run: Run; readonly others: number } {
    const { problem, env } = this.#setting(data, options);
    const placed = new Map<string, Placed>();
    try {
      this.#placeOperands(problem, data, options, placed);
      const run = this.#collect(problem, placed, this.#launch(env, placed, options));
      const d = placed.get("d")?.buffer;
      if (d === undefined) throw new Error("no buffer d");
      const first = must(d.read());
      let others = 0;
      for (let i = 1; i < times; i++) {
        must(d.fill(SENTINEL));
        this.#launch(env, placed, options);
        const bytes = must(d.read());
        if (Buffer.compare(bytes, first) !== 0) others++;
      }
      return { run, others };
    } finally {
      for (const { buffer } of placed.values()) buffer.free();
    }
  }

  #setting(
    data: CaseData,
    options: RunOptions,
  ): { readonly problem: Problem; readonly env: LaunchEnvironment } {
    const problem = options.problem ?? fixedProblem(this.#artifact.problem);
    const env = this.#environment(problem, data);
    must(evaluateConstraints(this.#artifact.manifest.constraints, env));
    return { problem, env };
  }

  /** Buffers of the operands, filled, into `placed`: what an error leaves there is freed with the rest. */
  #placeOperands(problem: Problem, data: CaseData, options: RunOptions, placed: Map<string, Placed>): void {
    for (const operand of deviceOperands(problem)) {
      // A and B of groups have no elements where k is 0.
      if (operand.bytes === 0 || (operand.name === "d" && options.inPlace)) continue;
      const place = this.#place(operand.bytes, this.#alignOf(problem, operand.name));
      placed.set(operand.name, place);
      if (operand.direction === "reduced") must(place.buffer.fill(0));
      else if (operand.direction === "out") must(place.buffer.fill(SENTINEL));
      else if (operand.name === "c" && options.withoutC) {
        if (this.#device.kind === "cuda") must(place.buffer.fill(SENTINEL));
      } else {
        const input = inputOf(data, operand.name);
        if (input === null) throw new Error(`no data for ${operand.name}`);
        must(place.buffer.write(bytesOfStorage(input), place.offset));
      }
    }
    const c = placed.get("c");
    if (options.inPlace && c) {
      this.#spoilGaps(c, problem);
      placed.set("d", c);
    }
  }

  /**
   * One launch of a grouped problem: every group's problem and data, null for groups without work (whose sizes say so). Results in the same order; faults of the
   * launch stand with the first group that has work.
   */
  runGroups(
    groups: readonly { readonly problem: Problem; readonly data: CaseData | null }[],
    options: Omit<RunOptions, "inPlace" | "withoutC" | "problem"> = {},
  ): readonly (Run | null)[] {
    const [kernel] = this.#artifact.manifest.kernels;
    if (expertRowsOf(this.#artifact.problem) !== null) return this.#runExperts(groups, options);
    if (kernel?.groups === undefined) throw new Error("the kernel has no rows of groups");
    const all: Map<string, Placed>[] = [];
    const table = new Map<string, Placed>();
    try {
      for (const { problem, data } of groups) {
        const placed = new Map<string, Placed>();
        all.push(placed);
        if (data !== null) this.#placeOperands(problem, data, {}, placed);
      }
      const rows = groups.map(({ problem, data }, i) => ({
        env: { ...this.#environment(problem, data), batch: groups.length },
        addresses: Object.fromEntries([...(all[i] ?? [])].map(([name, { address }]) => [name, address])),
      }));
      const envs = rows.map(({ env }) => env);
      const faults = groupConstraints(this.#artifact.manifest.constraints, envs).map(formatDiagnostic);
      const bytes = must(groupTable(kernel.groups, rows));
      const place = this.#place(bytes.byteLength, ALLOCATION_ALIGN);
      table.set("groups", place);
      must(place.buffer.write(bytes));
      faults.push(...this.#launch(launchOfGroups(kernel, envs) ?? {}, table, options));
      return groups.map(({ problem, data }, i) =>
        data === null ? null : this.#collect(problem, all[i] ?? new Map(), faults.splice(0)),
      );
    } finally {
      for (const placed of [...all, table]) for (const { buffer } of placed.values()) buffer.free();
    }
  }

  /** The same of experts, whose operands share buffers: what a kernel leaves between the parts of groups, or writes there, is a fault too. */
  #runExperts(
    groups: Parameters<Session["runGroups"]>[0],
    options: Parameters<Session["runGroups"]>[1] = {},
  ): readonly (Run | null)[] {
    const { problem: whole } = this.#artifact;
    const counts = groups.map(({ problem }) => problem[expertAxisOf(whole)]);
    const rows = expertRowsData(expertRowsOf(whole) ?? "offsets", counts);
    const operands = expertOperands(whole, counts);
    const shared = new Map<string, Placed>();
    const all = groups.map(() => new Map<string, Placed>());
    try {
      for (const { name, bytes, direction, parts } of operands) {
        const place = this.#place(bytes, this.#alignOf(whole, name));
        shared.set(name, place);
        must(place.buffer.fill(SENTINEL));
        // Rows that are added to hold zeros before.
        for (const [g, part] of direction === "reduced" ? parts.entries() : [])
          for (const { from, to, at } of linesOf(whole, name, part, groups[g]?.data ?? null))
            must(place.buffer.write(new Uint8Array(to - from), place.offset + at));
        for (const [g, part] of direction === "in" ? parts.entries() : []) {
          const data = groups[g]?.data ?? null;
          const input = data && inputOf(data, name);
          if (input === null) continue;
          const own = bytesOfStorage(input);
          for (const { from, to, at } of linesOfSlice(part))
            must(place.buffer.write(own.subarray(from, to), place.offset + at));
        }
      }
      const place = this.#place(rows.byteLength, rows.BYTES_PER_ELEMENT);
      shared.set("groups", place);
      must(place.buffer.write(new Uint8Array(rows.buffer), place.offset));
      const some = groups.find(({ data }) => data !== null)?.data ?? null;
      const env = this.#environment({ ...whole, batch: { kind: "none" } }, some);
      const faults = this.#launch({ ...env, batch: groups.length }, shared, options);
      for (const { name, parts } of operands.filter(({ direction }) => direction !== "in")) {
        const from = shared.get(name);
        const bytes = from ? must(from.buffer.read()) : new Uint8Array();
        const start = from?.offset ?? 0;
        const lines = groups.map(({ data }, g) => linesOf(whole, name, parts[g], data));
        for (const [g, own] of lines.entries()) {
          const to = this.#place(parts[g]?.bytes ?? 0, this.#alignOf(whole, name));
          all[g]?.set(name, to);
          must(to.buffer.fill(SENTINEL));
          for (const { from, to: end, at } of own)
            must(to.buffer.write(bytes.slice(start + at, start + at + end - from), to.offset + from));
        }
        for (const { from, to, at } of lines.flat()) bytes.fill(SENTINEL, start + at, start + at + to - from);
        const stray = bytes.findIndex((byte) => byte !== SENTINEL);
        if (stray >= 0) faults.push(`byte ${stray} of ${name} belongs to no expert and was written`);
      }
      return groups.map(({ problem, data }, i) =>
        data === null ? null : this.#collect(problem, all[i] ?? new Map(), faults.splice(0)),
      );
    } finally {
      for (const placed of [...all, shared]) for (const { buffer } of placed.values()) buffer.free();
    }
  }

  #environment(problem: Problem, data: CaseData | null): LaunchEnvironment {
    const { alpha, beta } = data ?? {};
    return {
      ...launchEnvironment(problem, this.#device, given({ alpha, beta })),
      ...Object.fromEntries(
        (data?.steps ?? []).flatMap((step, i) => (typeof step === "number" ? [[`epilogue${i}`, step]] : [])),
      ),
    };
  }

  /** What the problem says; a vector that bulk copies bring has to begin where the manifest asks it to. */
  #alignOf(problem: Problem, name: string): number {
    const brought = this.#artifact.manifest.kernels.some(({ params }) =>
      params.some((param) => param.kind === "tensorMap" && param.tensorMap.operand === name),
    );
    return Math.max(alignOf(problem, name), brought ? TENSOR_ALIGN : 1);
  }

  #place(bytes: number, align: number): Placed {
    const offset = align >= ALLOCATION_ALIGN ? 0 : align;
    const buffer = must(this.#device.alloc(offset + bytes));
    return { buffer, offset, address: buffer.address + BigInt(offset) };
  }

  /** C's gaps as D's are: with the sentinel, which is the poison of inputs too. */
  #spoilGaps(place: Placed, problem: Problem): void {
    const size = sizeOf(problem.d.dtype);
    operandMask(problem, "d").forEach((used, i) => {
      if (used === 0) must(place.buffer.write(new Uint8Array(size).fill(SENTINEL), place.offset + i * size));
    });
    if (place.offset > 0) must(place.buffer.write(new Uint8Array(place.offset).fill(SENTINEL)));
  }

  #launch(env: LaunchEnvironment, placed: ReadonlyMap<string, Placed>, options: RunOptions): string[] {
    const { kernels, workspace } = this.#artifact.manifest;
    const { order, seed, arithmetic } = options;
    const places: Record<string, MemoryPlace> = {
      workspace: this.#workspaceOf(must(evaluateLaunchExpr(workspace.bytes, env))) ?? {
        address: 0n,
        size: 0,
      },
    };
    for (const [name, { buffer, offset, address }] of placed)
      places[name] = { address, size: buffer.size - offset };
    return kernels.flatMap((kernel) => {
      const planned = planLaunch(kernel, env, places);
      // A manifest that the launch refuses is a fault of the kernel.
      if (!planned.ok) return planned.error.map(({ code, message }) => `${code}: ${message}`);
      const knobs = given({ order, seed, arithmetic });
      const { findings, completed } = must(
        launchPlanned(this.#device, this.#module, planned.value, 0n, knobs),
      );
      const faults = findings.map((finding) => `${finding.rule}: ${finding.message}`);
      return completed ? faults : [...faults, `${kernel.entry} did not end`];
    });
  }

  /** Filled as the manifest says, before the first launch or before each. */
  #workspaceOf(bytes: number): DeviceBuffer | null {
    if (bytes === 0) return null;
    const { init } = this.#artifact.manifest.workspace;
    const fresh = this.#workspace === null || this.#workspace.size < bytes;
    if (fresh) this.#workspace?.free();
    if (fresh) this.#workspace = must(this.#device.alloc(bytes));
    if (init === "zeroEach" || (init === "zeroOnce" && fresh)) must(this.#workspace?.fill(0) ?? ok(true));
    return this.#workspace;
  }

  #collect(problem: Problem, placed: ReadonlyMap<string, Placed>, found: readonly string[]): Run {
    const faults = [...found];
    const read = (name: string, dtype: DType, mask: Uint8Array | null): OperandData => {
      const place = placed.get(name);
      if (!place) throw new Error(`no buffer ${name}`);
      const bytes = must(place.buffer.read());
      const size = packedSize(dtype);
      const isOutside = (at: number): boolean =>
        at < place.offset || mask?.[Math.floor((at - place.offset) / size)] === 0;
      const stray = mask && bytes.findIndex((byte, at) => byte !== SENTINEL && isOutside(at));
      if (stray !== null && stray >= 0)
        faults.push(`byte ${stray - place.offset} of ${name} belongs to no matrix and was written`);
      const contents = bytes.slice(place.offset);
      return storageFromBytes(dtype, contents, Math.floor(contents.byteLength / size));
    };
    const d = read("d", problem.d.dtype, operandMask(problem, "d"));
    const steps = new Map<number, OperandData>();
    problem.epilogue.forEach((step, i) => {
      const name = `epilogue${i}`;
      if (step.kind === "reduce") steps.set(i, read(name, step.dtype, null));
      if (!storesMatrix(step)) return;
      const elements = (placed.get(name)?.buffer.size ?? 0) - (placed.get(name)?.offset ?? 0);
      const length = Math.floor(elements / sizeOf(step.operand.dtype));
      steps.set(i, read(name, step.operand.dtype, stepMask(problem, i, step.operand, length)));
    });
    return { d, steps, faults };
  }
}

function alignOf(problem: Problem, name: string): number {
  if (name === "a" || name === "b" || name === "d") return problem[name].align;
  if (name === "c") return Math.max(problem.c?.align ?? 1, 1);
  if (name === "sfa" || name === "sfb") return SCALE_ALIGN;
  const index = Number(name.slice("epilogue".length));
  const step = problem.epilogue[index];
  if (step === undefined) return ALLOCATION_ALIGN;
  if ("operand" in step) return step.operand.align;
  return "dtype" in step ? vectorAlign(problem, index) : ALLOCATION_ALIGN;
}

/** Where lines of a group's part of an output stand in the group's own bytes, and in the buffer: rows of D that an index names have one place. */
function linesOf(
  whole: Problem,
  name: string,
  part: ExpertSlice | undefined,
  data: CaseData | null,
): ReturnType<typeof linesOfSlice> {
  const index = name === "d" ? rowIndexOf(whole, "d") : null;
  const named = index === null ? null : data?.steps[index.step];
  if (part === undefined || index === null) return part === undefined ? [] : linesOfSlice(part);
  const [unit, rows] = [sizeOf(whole.d.dtype), named !== null && typeof named === "object" ? named : []];
  return Array.from(rows, (row) => {
    const at = row * whole.d.ld * unit;
    return { from: at, to: at + whole.n * unit, at };
  });
}

function inputOf(data: CaseData, name: string): OperandData | null {
  if (name === "a" || name === "b" || name === "c" || name === "sfa" || name === "sfb") return data[name];
  const step = data.steps[Number(name.slice("epilogue".length))] ?? null;
  return typeof step === "number" ? null : step;
}
