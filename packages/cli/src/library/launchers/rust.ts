/** The Rust launcher: `launchers/rust/launcher.rs`, which binds to the functions of the C launcher. */
import type { Library, LibraryOperation } from "../model.ts";
import { describeOperation, filled, mostSteps } from "./common.ts";

function operationText({ name, problem }: LibraryOperation): string {
  const about = describeOperation(problem).map((line) => `    /// * ${line}`);
  const functions = ["", "_defaults", "_take", "_workspace"].map((suffix) => `${name}${suffix}`);
  const symbols = functions.map((each) => JSON.stringify(`LIB_${each}`));
  return `operation! {
${about.join("\n")}
    ${functions.join(" ")}: ${symbols.join(" ")}
}
`;
}

/** Text of `NAME.rs`. */
export const rustLauncher = (library: Library): string =>
  filled("rust/launcher.rs", library, {
    STEPS: String(mostSteps(library)),
    OPERATIONS: library.operations.map(operationText).join(""),
  });
