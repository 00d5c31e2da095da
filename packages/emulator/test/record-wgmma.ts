/**
 * Records what a GPU answers to the kernels of wgmma-forms.ts, for wgmma.test.ts. From packages/emulator:
 *
 *   node --conditions=@tilewright/source test/record-wgmma.ts write DIR
 *       kernels, inputs and recipe.json: for each run the kernel's file, the launch, and the buffers in the order of the parameters
 *   node --conditions=@tilewright/source test/record-wgmma.ts run DIR @tilewright/runtime [cuda|emulator]
 *       runs them all (on the first GPU) and writes the outputs beside the inputs; any other runner of recipe.json will do
 *   node --conditions=@tilewright/source test/record-wgmma.ts record DIR
 *       hashes of the outputs to golden/wgmma-sm_90a.json
 */
import { createHash } from "node:crypto";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { type InputClass, inputClasses } from "./mma-forms.ts";
import {
  buffersOf,
  casesOf,
  casesPerClass,
  kernelOf,
  outputBytes,
  threads,
  wgmmaForms,
} from "./wgmma-forms.ts";

interface Run {
  readonly form: string;
  readonly class: InputClass;
  readonly ptx: string;
  readonly entry: "k";
  readonly grid: readonly [number, number, number];
  readonly block: readonly [number, number, number];
  /** Files of the inputs a, b, c. */
  readonly inputs: readonly string[];
  /** File and bytes of d, the last parameter. */
  readonly output: string;
  readonly outputBytes: number;
}

const slug = (name: string): string => name.replaceAll(/[^A-Za-z0-9.-]+/g, "_");

function write(folder: string): void {
  mkdirSync(folder, { recursive: true });
  const put = (name: string, data: string | Uint8Array): string => {
    writeFileSync(join(folder, name), data);
    return name;
  };
  const runs = wgmmaForms.flatMap((form) => {
    const name = slug(form.name);
    const ptx = put(`${name}.ptx`, kernelOf(form));
    return inputClasses.map((kind): Run => {
      const { a, b, c } = buffersOf(form, casesOf(form, kind));
      return {
        form: form.name,
        class: kind,
        ptx,
        entry: "k",
        grid: [casesPerClass, 1, 1],
        block: [threads, 1, 1],
        inputs: Object.entries({ a, b, c }).map(([operand, data]) =>
          put(`${name}.${kind}.${operand}.bin`, data),
        ),
        output: `${name}.${kind}.d.bin`,
        outputBytes: outputBytes(form, casesPerClass),
      };
    });
  });
  put("recipe.json", `${JSON.stringify(runs, null, 1)}\n`);
}

const recipe = (folder: string): readonly Run[] =>
  JSON.parse(readFileSync(join(folder, "recipe.json"), "utf8"));

type Answer<T> = { readonly ok: true; readonly value: T } | { readonly ok: false; readonly error: unknown };
function got<T>(answer: Answer<T>): T {
  if (!answer.ok) throw new Error(JSON.stringify(answer.error));
  return answer.value;
}

interface Buffer {
  write(data: Uint8Array): Answer<unknown>;
  read(): Answer<Uint8Array>;
  free(): void;
}
/** What of the runtime's device is used; the package is named on the command line since it stands above this one. */
interface Device {
  readonly name: string;
  load(ptx: string): Answer<{
    kernel(entry: string): Answer<{
      launch(request: {
        readonly grid: Run["grid"];
        readonly block: Run["block"];
        readonly args: readonly Buffer[];
      }): Answer<unknown>;
    }>;
  }>;
  alloc(bytes: number): Answer<Buffer>;
  close(): void;
}

async function run(folder: string, runtime: string, kind: string): Promise<void> {
  const { openDevice } = (await import(runtime)) as {
    openDevice(request: { kind: string; arch: string }): Promise<Answer<Device>>;
  };
  const device = got(await openDevice({ kind, arch: "sm_90a" }));
  console.error(device.name);
  for (const { ptx, entry, grid, block, inputs, output, outputBytes } of recipe(folder)) {
    const module = got(device.load(readFileSync(join(folder, ptx), "utf8")));
    const buffers = inputs.map((file) => {
      const data = new Uint8Array(readFileSync(join(folder, file)));
      const buffer = got(device.alloc(data.length));
      got(buffer.write(data));
      return buffer;
    });
    const result = got(device.alloc(outputBytes));
    got(got(module.kernel(entry)).launch({ grid, block, args: [...buffers, result] }));
    writeFileSync(join(folder, output), got(result.read()));
    for (const buffer of [...buffers, result]) buffer.free();
  }
  device.close();
}

function record(folder: string): void {
  const golden: Record<string, Record<string, string>> = {};
  for (const { form, class: kind, output } of recipe(folder)) {
    golden[form] ??= {};
    golden[form][kind] = createHash("sha256")
      .update(readFileSync(join(folder, output)))
      .digest("hex");
  }
  const file = fileURLToPath(new URL("./golden/wgmma-sm_90a.json", import.meta.url));
  writeFileSync(file, `${JSON.stringify(golden, null, 1)}\n`);
}

const [mode, folder, runtime, kind = "cuda"] = process.argv.slice(2);
if (mode === "write" && folder !== undefined) write(folder);
else if (mode === "run" && folder !== undefined && runtime !== undefined) await run(folder, runtime, kind);
else if (mode === "record" && folder !== undefined) record(folder);
else throw new Error("write DIR | run DIR RUNTIME [cuda|emulator] | record DIR");
