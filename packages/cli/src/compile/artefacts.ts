/** The files of a compiled kernel: PTX, cubin, IR, and the manifest that says how to launch it. */
import {
  type Certificate,
  type Checked,
  type Diagnostic,
  err,
  findTarget,
  type KernelResources,
  type Manifest,
  type ManifestAttention,
  type ManifestImage,
  occupancy,
  ok,
  printManifest,
  runsOn,
  type Target,
} from "@tilewright/core";
import type { Artifact, Attention } from "@tilewright/ir";
import { codes, problemWith } from "../codes.ts";
import type { Context } from "../context.ts";
import { sha256 } from "../files/hash.ts";
import { type Assembled, assemble } from "../tools/ptxas.ts";
import { stageTexts } from "./explain.ts";

export const emitFormats = ["ptx", "manifest", "cubin", "ir"] as const;
export type EmitFormat = (typeof emitFormats)[number];

export interface EmittedFile {
  readonly format: EmitFormat;
  /** File name, without a folder. */
  readonly name: string;
  readonly data: string | Uint8Array;
}

/** The entry symbol, after which files are named. */
export const entryOf = ({ program }: Artifact): string => program.name;

/** A cubin, and the target that it was assembled for. */
interface Cubin extends Assembled {
  readonly target: Target;
}

/** What ptxas said of the kernels of every cubin. */
function resourcesOf(artifact: Artifact, cubins: readonly Cubin[]): Manifest["resources"] {
  const [first] = cubins;
  if (first === undefined) return null;
  const kernels = cubins.flatMap(({ kernels, target }): KernelResources[] =>
    artifact.kernels.flatMap(({ entry, launch }) => {
      const found = kernels.find((kernel) => kernel.entry === entry);
      if (found === undefined) return [];
      const [x, y, z] = launch.block;
      const use = {
        threads: x * y * z,
        registers: Math.max(1, found.registers),
        smem: launch.dynamicSmem + found.staticSmem,
      };
      return [{ ...found, arch: target.arch, blocksPerSm: occupancy(use, target).blocksPerSm }];
    }),
  );
  return { by: `ptxas ${first.version}`, kernels };
}

/** The targets to assemble for: those asked for, else the text's own. Errors: unknown ones, and GPUs that the text does not run on. */
function cubinTargets(artifact: Artifact, archs: readonly string[]): Checked<readonly Target[]> {
  if (archs.length === 0) return ok([artifact.target]);
  const faults: Diagnostic[] = [];
  const targets = archs.flatMap((arch) => {
    const target = findTarget(arch);
    if (!target.ok) {
      faults.push(...target.error.map((one) => ({ ...one, at: "--cubins" })));
      return [];
    }
    if (runsOn(artifact.target, target.value.major, target.value.minor)) return [target.value];
    const message = `text for ${artifact.target.arch} does not run on ${arch}`;
    faults.push(
      problemWith(codes.badValue, "--cubins", message, { hint: "compile for that architecture with --arch" }),
    );
    return [];
  });
  return faults.length > 0 ? err(faults) : ok(targets);
}

async function assembleAll(context: Context, artifact: Artifact, archs: readonly string[]) {
  const targets = cubinTargets(artifact, archs);
  if (!targets.ok) return targets;
  const faults: Diagnostic[] = [];
  const cubins: Cubin[] = [];
  for (const target of targets.value) {
    const made = await assemble(context, artifact.ptx, target.arch);
    if (made.ok) cubins.push({ ...made.value, target });
    else faults.push(...made.error);
  }
  return faults.length > 0 ? err(faults) : ok(cubins);
}

export interface FileOptions {
  /** Beginning of every file name. */
  readonly stem: string;
  /** Architectures to assemble for; the artefact's own if there are none. */
  readonly cubins?: readonly string[];
  readonly certificate?: Certificate | undefined;
  /** Of attention: what it computes, for the manifest. */
  readonly attention?: Attention | undefined;
  /** PTX as it is launched, without comments and `.loc`; with them, the machine text that they name is the last file. */
  readonly bare?: boolean;
}

const meaningOf = ({ scale, softCap, causal, window }: Attention): ManifestAttention => ({
  ...{ scale, softCap, causal, window },
});

/** The files that `formats` asks for. Errors: what ptxas says, for every architecture. */
export async function filesOf(
  context: Context,
  artifact: Artifact,
  formats: readonly EmitFormat[],
  { stem, cubins: archs = [], certificate, attention, bare = false }: FileOptions,
): Promise<Checked<readonly EmittedFile[]>> {
  const files: EmittedFile[] = [];
  const beside: EmittedFile[] = [];
  const images: ManifestImage[] = [];
  let cubins: readonly Cubin[] = [];
  if (formats.includes("ptx")) {
    const name = `${stem}.ptx`;
    const { ptx, source } = bare
      ? { ptx: artifact.ptx, source: null }
      : artifact.annotated(`${stem}.machine.tile`);
    files.push({ format: "ptx", name, data: ptx });
    if (source !== null && !formats.includes("ir"))
      beside.push({ format: "ir", name: source.name, data: source.text });
    images.push({ format: "ptx", arch: artifact.target.arch, path: name, sha256: sha256(ptx) });
  }
  if (formats.includes("cubin")) {
    const made = await assembleAll(context, artifact, archs);
    if (!made.ok) return made;
    cubins = made.value;
    for (const { target, cubin, version, flags } of cubins) {
      const name = archs.length === 0 ? `${stem}.cubin` : `${stem}.for-${target.arch}.cubin`;
      files.push({ format: "cubin", name, data: cubin });
      images.push({
        ...{ format: "cubin", arch: target.arch, path: name, sha256: sha256(cubin) },
        ...{ ptxas: version, flags },
      });
    }
  }
  if (formats.includes("ir"))
    for (const [stage, data] of stageTexts(artifact))
      files.push({ format: "ir", name: `${stem}.${stage}.tile`, data });
  if (formats.includes("manifest")) {
    const manifest = {
      ...artifact.manifest,
      ...{ images, resources: resourcesOf(artifact, cubins) },
      ...(attention === undefined ? {} : { attention: meaningOf(attention) }),
      ...(certificate === undefined ? {} : { certificate }),
    };
    files.push({ format: "manifest", name: `${stem}.gemm.json`, data: printManifest(manifest) });
  }
  return ok([...files, ...beside]);
}
