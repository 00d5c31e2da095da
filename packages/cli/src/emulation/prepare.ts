/** Everything that an emulation reads, checked before anything runs: all errors at once. */
import { dirname, resolve } from "node:path";
import { type Checked, type Diagnostic, diagnosticsOfIssues, err, ok } from "@tilewright/core";
import { checkModule, type PtxModule, parseModule } from "@tilewright/ptx";
import { type Device, openDevice } from "@tilewright/runtime";
import { codes, failWith } from "../codes.ts";
import { located } from "../compile/source.ts";
import type { Context } from "../context.ts";
import { readJsonFile } from "../files/json.ts";
import { readText } from "../files/read.ts";
import { type ArrayLoader, loadArray } from "../launch/arrays.ts";
import { type HostBuffer, makeBuffers } from "../launch/buffers.ts";
import { type Expectations, loadExpectations } from "../launch/compare.ts";
import { fieldsAt, type Launch, launchSchema } from "../launch/schema.ts";
import { checkTensorMaps } from "../launch/tensor-maps.ts";

export interface Prepared {
  readonly ptx: string;
  readonly launch: Launch;
  readonly buffers: readonly HostBuffer[];
  readonly expectations: Expectations;
  /** Files of the launch are relative to this folder. */
  readonly folder: Context;
  /** The architecture that the text is for. */
  readonly arch: string;
  /** Where it runs; to be closed. */
  readonly device: Device;
}

interface Paths {
  readonly ptx: string;
  readonly launch: string;
  /** As ptxas's flag of that name. */
  readonly fmad: boolean;
}

/** What a launch file says, and the arrays that it refers to. */
type Launched = Pick<Prepared, "launch" | "buffers" | "expectations">;

/** A launch file's value, checked with all that it names. `arch`: what the text is for, where it says so. */
export function checkLaunch(
  value: unknown,
  load: ArrayLoader,
  { path, arch }: { readonly path: string; readonly arch: string | null },
): Checked<Launched> {
  const parsed = launchSchema.safeParse(value);
  if (!parsed.success)
    return err(diagnosticsOfIssues(parsed.error.issues, value, codes.badJson.code, path, fieldsAt));
  const launch = parsed.data;
  const { buffers, problems } = makeBuffers(load, launch);
  const expectations = loadExpectations(load, launch, buffers);
  const maps = checkTensorMaps(launch.tensorMaps, buffers, arch);
  if (!expectations.ok || problems.length > 0 || maps.length > 0)
    return err([...problems, ...maps, ...(expectations.ok ? [] : expectations.error)]);
  return ok({ launch, buffers, expectations: expectations.value });
}

function readLaunch(
  context: Context,
  path: string,
  arch: string | null,
): Checked<Launched & Pick<Prepared, "folder">> {
  const json = readJsonFile(context, path);
  if (!json.ok) return json;
  const { value, locate } = json.value;
  const folder = path === "-" ? context : { ...context, cwd: dirname(resolve(context.cwd, path)) };
  const launched = checkLaunch(value, (source) => loadArray(folder, source), { path, arch });
  return launched.ok ? ok({ ...launched.value, folder }) : err(locate(launched.error));
}

/** What the text is for; a text without it is for the loader to refuse. */
export const archOf = (ptx: string): string => /^\s*\.target\s+(sm_\w+)/m.exec(ptx)?.[1] ?? "sm_70";

/** The module as far as a launch of `entry` reaches: what ptxas would refuse in another kernel of it is nothing to this one. */
const reachedBy = (module: PtxModule, entry: string | null): PtxModule => ({
  ...module,
  items: module.items.filter(
    (item) => item.kind !== "function" || !item.entry || entry === null || item.name === entry,
  ),
});

/** A device for the text, on which it loads. */
async function openFor(
  ptx: string,
  { ptx: path, fmad }: Paths,
  entry: string | null,
): Promise<Checked<{ device: Device; arch: string }>> {
  const parsed = parseModule(ptx, { keep: "unknown" });
  if (!parsed.ok) return err(located(parsed.error, path));
  const arch = parsed.value.target;
  const device = await openDevice({ kind: "emulator", arch, fmad });
  if (!device.ok) return device;
  const module = device.value.load(ptx);
  if (module.ok) module.value.unload();
  // What ptxas would refuse although it can be run: instructions of later targets, names that nothing declares.
  const problems = [...(module.ok ? [] : module.error), ...checkModule(reachedBy(parsed.value, entry))];
  if (problems.length === 0) return ok({ device: device.value, arch });
  device.value.close();
  return err(located(problems, path));
}

/** Read and check the PTX text, the launch file and all that it names. */
export async function prepare(context: Context, paths: Paths): Promise<Checked<Prepared>> {
  const ptx = readText(context, paths.ptx);
  const launched: ReturnType<typeof readLaunch> =
    paths.launch === "-" && paths.ptx === "-"
      ? failWith(codes.conflict, "--launch", "standard input cannot be both the PTX text and the launch file")
      : readLaunch(context, paths.launch, ptx.ok ? archOf(ptx.value) : null);
  const opened = ptx.ok
    ? await openFor(ptx.value, paths, launched.ok ? launched.value.launch.entry : null)
    : ptx;
  if (!ptx.ok || !opened.ok || !launched.ok) {
    const errors: Diagnostic[] = [...(opened.ok ? [] : opened.error), ...(launched.ok ? [] : launched.error)];
    if (opened.ok) opened.value.device.close();
    return err(errors);
  }
  return ok({ ptx: ptx.value, ...launched.value, ...opened.value });
}
