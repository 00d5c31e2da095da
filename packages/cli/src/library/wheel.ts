/** A Python wheel of a kernel library (binary distribution format 1.0, core metadata 2.1): pure, so that every Python and machine takes it. */
import { createHash } from "node:crypto";
import type { Attention } from "@tilewright/ir";
import type { OutputFile } from "../files/atomic.ts";
import { zipOf } from "../files/zip.ts";
import { launcherSource } from "../launchers.ts";
import { version as generator } from "../version.ts";
import type { Library } from "./model.ts";

/** The package's own files: those of `launchers/python`. */
const modules = [
  ...["__init__", "_expressions", "_operands", "_attention", "_plans", "_library", "_shim"].map(
    (name) => `${name}.py`,
  ),
  ...["shim.c", "shim_launch.h", "_torch.py", "_torch_reference.py", "_torch_attention.py"],
];

/** What attention has that torch's operators have no argument for. */
export const withoutWheel = ({ offsets, pageSize, kv, backward, latent }: Attention): readonly string[] => [
  ...(offsets === null ? [] : ["offsets of sequences"]),
  ...(pageSize === null ? [] : ["pages of keys"]),
  ...(kv === null ? [] : ["scales of K and V"]),
  ...(backward === null ? [] : ["gradients as operations"]),
  ...(latent ? ["V in the rows of K"] : []),
];

const hashOf = (data: string | Uint8Array): string =>
  createHash("sha256").update(data).digest("base64url").replace(/=+$/, "");

const metadata = (library: Library, version: string): string => `Metadata-Version: 2.1
Name: ${library.name}
Version: ${version}
Summary: GPU kernels ${library.operations.map(({ name }) => name).join(", ")}
Requires-Python: >=3.8
Provides-Extra: torch
Requires-Dist: torch>=2.4; extra == "torch"

Made by tilewright ${generator}. from ${library.name} import ${library.operations[0]?.name}; help(${library.operations[0]?.name}) says what it takes.
`;

/** `NAME-VERSION-py3-none-any.whl` of a library's index, manifests and images: `files`, with paths relative to the library's folder. */
export function wheelOf(library: Library, files: readonly OutputFile[], version: string): OutputFile {
  const { name } = library;
  const info = `${name}-${version}.dist-info`;
  const content: readonly OutputFile[] = [
    ...modules.map((path) => ({ path: `${name}/${path}`, data: launcherSource(`python/${path}`) })),
    ...files.map(({ path, data }) => ({ path: `${name}/${path}`, data })),
    { path: `${info}/METADATA`, data: metadata(library, version) },
    {
      path: `${info}/WHEEL`,
      data: `Wheel-Version: 1.0\nGenerator: tilewright ${generator}\nRoot-Is-Purelib: true\nTag: py3-none-any\n`,
    },
  ];
  const rows = content.map(({ path, data }) => `${path},sha256=${hashOf(data)},${Buffer.byteLength(data)}`);
  const record = { path: `${info}/RECORD`, data: `${[...rows, `${info}/RECORD,,`].join("\n")}\n` };
  return { path: `${name}-${version}-py3-none-any.whl`, data: zipOf([...content, record]) };
}
