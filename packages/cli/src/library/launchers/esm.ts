/** The launcher for JavaScript: an ES module on `@tilewright/runtime`, and its types. */
import type { OutputFile } from "../../files/atomic.ts";
import type { Library, LibraryOperation } from "../model.ts";
import { describeOperation, filled, packsWeights } from "./common.ts";

const documented = (operation: LibraryOperation, declaration: string): string =>
  [
    "/**",
    ` * ${operation.name}: queued on \`stream\`, or without one launched and waited for.`,
    " *",
    ...describeOperation(operation).map((line) => ` * - ${line}`),
    " */",
    declaration,
  ].join("\n");

/** `NAME.js` and `NAME.d.ts`: `launchers/esm` with the library's operations in it. */
export function esmLauncher(library: Library): readonly OutputFile[] {
  const { operations } = library;
  const file = (suffix: string, declare: (operation: LibraryOperation) => string): OutputFile => ({
    path: `${library.name}.${suffix}`,
    data: filled(`esm/launcher.${suffix}`, library, {
      ARGUMENTS:
        operations[0]?.tensors === undefined
          ? "{ m, n, k }, { a, b, d }"
          : "{ tensors: { q: { shape: [batch, heads, queries, headDim] } } }, { q, k, v, out }",
      WEIGHTS: packsWeights(library)
        ? '/** Weights in the order that kernels read: bytes of the buffers b and sfb. */\nexport { packWeights } from "@tilewright/runtime";'
        : "",
      OPERATIONS: operations.map((each) => documented(each, declare(each))).join("\n\n"),
    }),
  });
  return [
    file(
      "js",
      ({ name }) =>
        `export const ${name} = (library, args, buffers, stream) =>\n  library.launch("${name}", args, buffers, stream);`,
    ),
    file(
      "d.ts",
      ({ name, tensors }) =>
        `export declare const ${name}: ${tensors === undefined ? "Product" : "Attention"};`,
    ),
  ];
}
