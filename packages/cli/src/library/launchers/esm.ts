/** The launcher for JavaScript: an ES module on `@tilewright/runtime`, and its types. */
import type { OutputFile } from "../../files/atomic.ts";
import type { Library, LibraryOperation } from "../model.ts";
import { describeOperation, filled } from "./common.ts";

const documented = ({ name, problem }: LibraryOperation, declaration: string): string =>
  [
    "/**",
    ` * ${name}: queued on \`stream\`, or without one launched and waited for.`,
    " *",
    ...describeOperation(problem).map((line) => ` * - ${line}`),
    " */",
    declaration,
  ].join("\n");

/** `NAME.js` and `NAME.d.ts`: `launchers/esm` with the library's operations in it. */
export function esmLauncher(library: Library): readonly OutputFile[] {
  const { operations } = library;
  const file = (suffix: string, declare: (name: string) => string): OutputFile => ({
    path: `${library.name}.${suffix}`,
    data: filled(`esm/launcher.${suffix}`, library, {
      OPERATIONS: operations.map((each) => documented(each, declare(each.name))).join("\n\n"),
    }),
  });
  return [
    file(
      "js",
      (name) =>
        `export const ${name} = (library, args, buffers, stream) =>\n  library.launch("${name}", args, buffers, stream);`,
    ),
    file("d.ts", (name) => `export declare const ${name}: Launch;`),
  ];
}
