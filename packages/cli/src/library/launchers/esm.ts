/** The launcher for JavaScript: an ES module on `@tilewright/runtime`, and its types. */
import { version } from "../../version.ts";
import type { Library, LibraryOperation } from "../model.ts";
import { describeOperation } from "./common.ts";

const documentation = ({ name, problem }: LibraryOperation): string =>
  [
    "/**",
    ` * ${name}: queued on \`stream\`, or without one launched and waited for.`,
    " *",
    ...describeOperation(problem).map((line) => ` * - ${line}`),
    " */",
  ].join("\n");

/** Text of `NAME.js`. */
export function esmLauncher(library: Library): string {
  const { name, operations } = library;
  return `/**
 * Kernel library ${name}, made by tilewright ${version}. Generated: do not edit. Needs @tilewright/runtime.
 *
 *   import { open, ${operations[0]?.name} } from "./${name}.js";
 *   const library = open(device); // a Device of @tilewright/runtime: a GPU or the emulator
 *   if (library.ok) ${operations[0]?.name}(library.value, { m, n, k }, { a, b, d }, stream);
 */
import { readFileSync } from "node:fs";
import { KernelLibrary } from "@tilewright/runtime";

const read = (path) => readFileSync(new URL(path, import.meta.url));

/** The library on a device; a result as everything of the runtime. */
export const open = (device) => KernelLibrary.open(device, JSON.parse(String(read("index.json"))), read);
${operations
  .map(
    (operation) => `
${documentation(operation)}
export const ${operation.name} = (library, args, buffers, stream) =>
  library.launch("${operation.name}", args, buffers, stream);
`,
  )
  .join("")}`;
}

/** Text of `NAME.d.ts`. */
export function esmTypes({ operations }: Library): string {
  return `import type { CudaStream, Device, KernelBuffers, KernelLibrary, LibraryArguments } from "@tilewright/runtime";

export declare const open: (device: Device) => ReturnType<typeof KernelLibrary.open>;
${operations
  .map(
    (operation) => `
${documentation(operation)}
export declare const ${operation.name}: (
  library: KernelLibrary,
  args: LibraryArguments,
  buffers: KernelBuffers,
  stream?: CudaStream,
) => ReturnType<KernelLibrary["launch"]>;
`,
  )
  .join("")}`;
}
