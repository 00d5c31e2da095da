/** The Rust launcher: `launchers/rust/launcher.rs`, which binds to the functions of the C launcher. */
import type { Library, LibraryOperation } from "../model.ts";
import { describeOperation, filled, mostSteps, mostTensors, packsWeights, sizesOf } from "./common.ts";

function operationText(operation: LibraryOperation): string {
  const { name } = operation;
  const about = describeOperation(operation).map((line) => `    /// * ${line}`);
  const functions = ["", "_defaults", "_take", "_workspace"].map((suffix) => `${name}${suffix}`);
  const symbols = functions.map((each) => JSON.stringify(`LIB_${each}`));
  return `operation! {
${about.join("\n")}
    ${name}(${sizesOf(operation).join(", ")}) ${functions.slice(1).join(" ")}: ${symbols.join(" ")}
}
`;
}

/** Text of `NAME.rs`. */
export const rustLauncher = (library: Library): string =>
  filled("rust/launcher.rs", library, {
    STEPS: String(mostSteps(library)),
    TENSORS: String(mostTensors(library)),
    SIZES: sizesOf(library.operations[0]).join(", "),
    WEIGHTS: packsWeights(library) ? filled("rust/weights.rs", library, {}) : "",
    OPERATIONS: library.operations.map(operationText).join(""),
  });
