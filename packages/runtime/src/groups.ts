/** A grouped problem on a device: one launch for GEMMs of different sizes, from host bytes to host bytes. */
import {
  type Checked,
  checkExpertRows,
  checkGroup,
  checkRowIndex,
  type Diagnostic,
  err,
  expertAxisOf,
  expertRowsData,
  expertRowsOf,
  type GroupArguments,
  given,
  groupConstraints,
  groupTable,
  isEmptyGroup,
  type LaunchEnvironment,
  type LaunchSizes,
  launchEnvironment,
  launchOfGroups,
  ok,
  type Problem,
  problemOfGroup,
  rowIndexOf,
} from "@tilewright/core";
import type { Device, DeviceBuffer } from "./device.ts";
import { diagnose } from "./diagnostics.ts";
import {
  allocate,
  type GemmArtifact,
  type GemmInputs,
  type GemmOptions,
  type GemmResult,
  inputBytes,
  inputProblems,
  launchInOrder,
  operandBuffers,
  readResults,
  spoil,
  stepScalars,
  workspaceOf,
} from "./gemm.ts";
import { type DeviceOperand, deviceOperands, expertOperands, linesOfSlice } from "./operands.ts";

/** Sizes of one group, and host bytes of its operands; a group with m or n of 0 is skipped and needs none, one with k of 0 none of A and B. */
export interface Group extends Partial<GemmInputs> {
  readonly sizes: LaunchSizes & { readonly m: number; readonly n: number; readonly k: number };
}

export type GroupsOptions = Omit<GemmOptions, "sizes">;

export interface GroupsResult extends Pick<GemmResult, "timeMs" | "findings" | "counters" | "completed"> {
  /** Bytes of D, and of what the epilogue stores, of each group; none of those without rows or columns. */
  readonly groups: readonly Pick<GemmResult, "d" | "steps">[];
}

/** A group as its launch has it. */
interface Launched {
  readonly problem: Problem;
  readonly env: LaunchEnvironment;
  readonly operands: readonly DeviceOperand[];
  readonly inputs: GemmInputs;
}

/**
 * Allocate, upload, launch the kernels of `artifact` once for all groups, download, free. There are as many groups as the problem says; each as `runGemm` has a
 * problem. Launch-time scalars of the epilogue are shared and come from the first group that has them.
 * Errors: what is wrong with the groups, all at once; then what the device says.
 */
export function runGroups(
  device: Device,
  artifact: GemmArtifact,
  groups: readonly Group[],
  options: GroupsOptions = {},
): Checked<GroupsResult> {
  const { alpha, beta, ...knobs } = options;
  const { manifest } = artifact;
  const [kernel] = manifest.kernels;
  const { batch } = manifest.request;
  const axis = expertAxisOf(manifest.request);
  if (kernel === undefined || batch.kind !== "grouped")
    return err([diagnose("parameter", "batch", "the kernel is not for a grouped problem", "use runGemm")]);
  if (groups.length !== batch.count)
    return err([
      diagnose(
        "operand",
        "groups",
        `${groups.length} groups were given to a kernel for ${batch.count}`,
        "fill up with groups of m = 0",
      ),
    ]);
  const scalars = given({ alpha, beta });
  const stepValues = stepScalars(groups.find((group) => group.steps !== undefined) ?? {});
  const launched = launchedGroups(manifest.request, groups, options, (problem) => ({
    ...launchEnvironment(problem, device, scalars),
    ...stepValues,
    batch: batch.count,
  }));
  if (!launched.ok) return launched;
  const envs = launched.value.map(({ env }) => env);
  // A launch of experts has one size, the rows that there are.
  const experts = kernel.groups === undefined;
  const whole = { ...(envs[0] ?? {}), [axis]: manifest.request[axis] };
  const broken = groupConstraints(manifest.constraints ?? [], experts ? [whole] : envs);
  if (broken.length > 0) return err(broken);

  const owned: (() => void)[] = [];
  try {
    const place = experts ? placeExperts : placeTable;
    const placed = place(device, manifest, launched.value, owned);
    if (!placed.ok) return placed;
    const module = device.load(artifact.ptx);
    if (!module.ok) return module;
    owned.push(() => module.value.unload());
    const env = experts ? whole : (launchOfGroups(kernel, envs) ?? {});
    const space = workspaceOf(device, manifest, env, owned);
    if (!space.ok) return space;
    const shared = { ...placed.value.buffers, ...(space.value === null ? {} : { workspace: space.value }) };
    const ran = launchInOrder(device, manifest, module.value, env, shared, knobs);
    if (!ran.ok) return ran;
    const results = placed.value.read();
    if (!results.ok) return results;
    const { timeMs, findings, counters, completed } = ran.value;
    return ok({ groups: results.value, timeMs, findings, counters, completed });
  } finally {
    for (const free of owned.reverse()) free();
  }
}

/** Buffers of a launch by their names in the manifest, and what they hold of each group behind it. */
interface Placed {
  readonly buffers: Readonly<Record<string, DeviceBuffer>>;
  read(): Checked<readonly Pick<GemmResult, "d" | "steps">[]>;
}

/** Buffers of each group, and the table that has their addresses. */
function placeTable(
  device: Device,
  { kernels: [kernel] }: GemmArtifact["manifest"],
  launched: readonly Launched[],
  owned: (() => void)[],
): Checked<Placed> {
  const buffers: Record<string, DeviceBuffer>[] = [];
  for (const { operands, inputs } of launched) {
    const made = operandBuffers(device, operands, inputs, owned);
    if (!made.ok) return made;
    buffers.push(made.value);
  }
  const rows = launched.map(
    ({ env }, i): GroupArguments => ({ env, addresses: addressesOf(buffers[i] ?? {}) }),
  );
  const table = groupTable(kernel?.groups ?? { bytes: 0, fields: [] }, rows);
  if (!table.ok) return table;
  const groups = allocate(device, table.value.byteLength, (buffer) => buffer.write(table.value), owned);
  if (!groups.ok) return groups;
  return ok({
    buffers: { groups: groups.value },
    read: () => all(launched.map(({ operands }, i) => readResults(operands, buffers[i] ?? {}))),
  });
}

/** One buffer of each operand for the rows of all experts, and the int32 that tell them apart. Errors: TW1020. */
function placeExperts(
  device: Device,
  { request }: GemmArtifact["manifest"],
  launched: readonly Launched[],
  owned: (() => void)[],
): Checked<Placed> {
  const counts = launched.map(({ problem }) => problem[expertAxisOf(request)]);
  const rows = expertRowsData(expertRowsOf(request) ?? "offsets", counts);
  const faults = checkExpertRows(request, rows);
  const found = [...faults, ...indexProblems(request, launched)];
  if (found.length > 0) return err(found);
  const operands = expertOperands(request, counts);
  const buffers: Record<string, DeviceBuffer> = {};
  for (const operand of operands) {
    const bytes = new Uint8Array(operand.bytes);
    for (const [g, part] of operand.parts.entries()) {
      const data = inputBytes(operand, launched[g]?.inputs ?? { a: bytes, b: bytes });
      if (data === null) continue;
      for (const { from, to, at } of linesOfSlice(part)) bytes.set(data.subarray(from, to), at);
    }
    const fill = operand.direction === "out" ? spoil(device) : (buffer: DeviceBuffer) => buffer.write(bytes);
    const made = allocate(device, operand.bytes, fill, owned);
    if (!made.ok) return made;
    buffers[operand.name] = made.value;
  }
  const groups = allocate(
    device,
    rows.byteLength,
    (buffer) => buffer.write(new Uint8Array(rows.buffer)),
    owned,
  );
  if (!groups.ok) return groups;
  const read: Placed["read"] = () => {
    const whole = readResults(operands, buffers);
    if (!whole.ok) return whole;
    const part = (bytes: Uint8Array, name: string, g: number): Uint8Array => {
      const { at, bytes: size } = operands.find((each) => each.name === name)?.parts[g] ?? {
        at: 0,
        bytes: 0,
      };
      return bytes.subarray(at, at + size);
    };
    return ok(
      counts.map((_, g) => ({
        d: part(whole.value.d, "d", g),
        steps: new Map([...whole.value.steps].map(([i, bytes]) => [i, part(bytes, `epilogue${i}`, g)])),
      })),
    );
  };
  return ok({ buffers: { ...buffers, groups: groups.value }, read });
}

/** What is wrong with rows of A and D that an index names: TW1020. */
function indexProblems(request: Problem, launched: readonly Launched[]): readonly Diagnostic[] {
  return (["a", "d"] as const).flatMap((which) => {
    const index = rowIndexOf(request, which);
    const named = launched.flatMap(({ inputs: { steps } }): readonly number[] => {
      const bytes = index && steps?.[index.step];
      return bytes instanceof Uint8Array ? [...new Int32Array(bytes.slice().buffer)] : [];
    });
    return checkRowIndex(request, which, named);
  });
}

/** All values, or the first error. */
function all<T>(checked: readonly Checked<T>[]): Checked<readonly T[]> {
  const values: T[] = [];
  for (const each of checked) {
    if (!each.ok) return each;
    values.push(each.value);
  }
  return ok(values);
}

const addressesOf = (buffers: Readonly<Record<string, DeviceBuffer>>): Readonly<Record<string, bigint>> =>
  Object.fromEntries(Object.entries(buffers).map(([name, { address }]) => [name, address]));

/** Problems and operands of the groups. Errors: of all groups at once. */
function launchedGroups(
  request: Problem,
  groups: readonly Group[],
  options: GroupsOptions,
  environment: (problem: Problem) => LaunchEnvironment,
): Checked<readonly Launched[]> {
  const found: Diagnostic[] = [];
  const launched = groups.flatMap((group, index): readonly Launched[] => {
    const refuse = (faults: readonly Diagnostic[]): readonly Launched[] => {
      found.push(...faults.map((each) => ({ ...each, at: `groups[${index}].${each.at}` })));
      return [];
    };
    const made = problemOfGroup(request, group.sizes);
    if (!made.ok) return refuse(made.error);
    const problem = made.value;
    const inputs = { ...group, a: group.a ?? new Uint8Array(), b: group.b ?? new Uint8Array() };
    const env = environment(problem);
    if (isEmptyGroup(problem)) return [{ problem, env, operands: [], inputs }];
    // A and B have no elements where k is 0.
    const operands = deviceOperands(problem).filter(({ bytes }) => bytes > 0);
    const faults = [...checkGroup(problem), ...inputProblems(problem, operands, inputs, options)];
    return faults.length > 0 ? refuse(faults) : [{ problem, env, operands, inputs }];
  });
  return found.length === 0 ? ok(launched) : err(found);
}
