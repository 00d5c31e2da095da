/** The Python launcher: a module without dependencies that reads the index and the manifests, by ctypes on the driver. */
import { version } from "../../version.ts";
import type { Library, LibraryOperation } from "../model.ts";
import { defaultsOf, describeOperation, mapNumbers, PLAIN_SMEM, PORTABLE_CLUSTER } from "./common.ts";
import { pythonRuntime } from "./python-runtime.ts";

const quote = (text: string): string => JSON.stringify(text);

/** Numbers of every tensor map in the library, by what its recipe says. */
function mapTables(library: Library): string {
  const types = new Map<string, number>();
  const words = {
    interleave: new Map<string, number>(),
    swizzle: new Map<string, number>(),
    l2: new Map<string, number>(),
  };
  for (const { manifest } of library.artefacts)
    for (const { params } of manifest.kernels)
      for (const param of params) {
        if (param.kind !== "tensorMap") continue;
        const { tensorMap: map } = param;
        const numbers = mapNumbers(map);
        types.set(map.dtype, numbers.type);
        for (const key of ["interleave", "swizzle", "l2"] as const) words[key].set(map[key], numbers[key]);
      }
  const table = (map: ReadonlyMap<string, number>) =>
    `{${[...map].map(([key, value]) => `${quote(key)}: ${value}`).join(", ")}}`;
  return [
    "# Numbers of CUtensorMapDataType and the other enumerators, for the recipes of this library.",
    `_MAP_TYPES = ${table(types)}`,
    `_MAP_INTERLEAVES = ${table(words.interleave)}`,
    `_MAP_SWIZZLES = ${table(words.swizzle)}`,
    `_MAP_PROMOTIONS = ${table(words.l2)}`,
  ].join("\n");
}

/** What a call may give: operands, numbers, sizes. */
function operationText({ name, problem }: LibraryOperation): string {
  const { batch, alpha, beta } = problem;
  const defaults = defaultsOf(problem).flatMap(({ operand, ld, stride }) => {
    const leading = typeof ld === "number" ? String(ld) : quote(ld);
    const between = typeof stride === "number" ? String(stride) : quote(stride);
    return [`        ${quote(operand)}: (${leading}, ${between}),`];
  });
  const matrices = (["a", "b", "c", "d"] as const).filter((which) => problem[which] !== null);
  return `
    def ${name}(self, m, n, k, ${matrices.join(", ")}, *, epilogue=None, stream=None, **more):
        """Queue ${name} on a stream; does not wait.

${describeOperation(problem)
  .map((line) => `        ${line}`)
  .join("\n")}

        Operands are addresses, or objects with data_ptr() (torch) or .data.ptr (cupy). epilogue: {step: operand or number}.
        more: alpha, beta, batch, lda..ldd, strideA..strideD (elements), workspace, workspace_bytes.
        """
        operands = {${matrices.map((which) => `${quote(which)}: ${which}`).join(", ")}}
        self._launch(${quote(name)}, (m, n, k), operands, epilogue or {}, stream, more)

    _DEFAULTS_${name} = {
        "batch": ${batch.kind === "none" ? 1 : batch.count},
        "alpha": ${alpha === "runtime" ? 1 : alpha},
        "beta": ${beta === "runtime" ? 0 : beta},
${defaults.join("\n")}
    }
`;
}

/** Text of `NAME.py`. */
export function pythonLauncher(library: Library): string {
  const { name, operations } = library;
  const [first] = operations;
  return `"""Kernel library ${name}, made by tilewright ${version}. Generated: do not edit.

    import ${name}
    library = ${name}.Library()          # GPU 0; its primary context, as torch and cupy have it
    library.${first?.name}(m, n, k, a, b, d, stream=torch.cuda.current_stream())

Python 3.8 or later, nothing else. Kernels are loaded at their first launch from the folder of this file.
"""
${pythonRuntime.replace("@PLAIN_SMEM@", String(PLAIN_SMEM)).replace("@PORTABLE_CLUSTER@", String(PORTABLE_CLUSTER))}
${mapTables(library)}


class Library(_Library):
    """The operations of ${name}."""
${operations.map(operationText).join("")}`;
}
