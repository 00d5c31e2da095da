/** The files of a compiled kernel: PTX, cubin, IR, and the manifest that says how to launch it. */
import { type Artifact, type Checked, type Manifest, ok, printManifest } from "@tilewright/ir";
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

/** The manifest of what is written: images that are written too, and what ptxas said. */
function manifestOf(
  artifact: Artifact,
  images: readonly EmittedFile[],
  assembled: Assembled | null,
): Manifest {
  const { manifest } = artifact;
  const by = assembled === null ? null : `ptxas ${assembled.version}`;
  return {
    ...manifest,
    images: images.flatMap(({ format, name, data }): Manifest["images"] => {
      const image = { path: name, sha256: sha256(data) };
      if (format === "ptx") return [{ format, ...image }];
      if (format !== "cubin" || assembled === null) return [];
      return [{ format, ...image, ptxas: assembled.version, flags: assembled.flags }];
    }),
    resources:
      assembled === null || by === null || assembled.registers === null
        ? null
        : {
            registers: assembled.registers,
            spillBytes: assembled.spillBytes,
            staticSmem: artifact.kernels[0]?.launch.staticSmem ?? 0,
            by,
          },
  };
}

/** The files that `formats` asks for. `tag` tells the files of several architectures apart. Errors: what ptxas says. */
export async function filesOf(
  context: Context,
  artifact: Artifact,
  formats: readonly EmitFormat[],
  tag: string,
): Promise<Checked<readonly EmittedFile[]>> {
  const stem = `${entryOf(artifact)}${tag}`;
  let assembled: Assembled | null = null;
  if (formats.includes("cubin")) {
    const made = await assemble(context, artifact.ptx, artifact.target.arch);
    if (!made.ok) return made;
    assembled = made.value;
  }
  const files: EmittedFile[] = [];
  if (formats.includes("ptx")) files.push({ format: "ptx", name: `${stem}.ptx`, data: artifact.ptx });
  if (assembled !== null) files.push({ format: "cubin", name: `${stem}.cubin`, data: assembled.cubin });
  if (formats.includes("ir"))
    for (const [stage, data] of stageTexts(artifact))
      files.push({ format: "ir", name: `${stem}.${stage}.tile`, data });
  // Last, because it names the images beside it.
  if (formats.includes("manifest")) {
    const data = printManifest(manifestOf(artifact, files, assembled));
    files.push({ format: "manifest", name: `${stem}.gemm.json`, data });
  }
  return ok(files);
}
