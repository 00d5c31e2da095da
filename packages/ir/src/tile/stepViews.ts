/** What an epilogue reads beside its accumulators. */
import type { Stmt, View } from "./types.ts";

type Epilogue = Extract<Stmt, { kind: "epilogue" }>;

/** C, and the inputs of steps that come out of tiles. */
export const broughtViews = (stmt: Epilogue): readonly View[] => [
  ...(stmt.c === null ? [] : [stmt.c]),
  ...(stmt.inputs ?? []).map(({ view }) => view),
];

/** The inputs of an epilogue's steps with other views in their places; nothing where it has none. */
export const withInputs = ({ inputs }: Epilogue, view: (old: View) => View): Pick<Epilogue, "inputs"> =>
  inputs === undefined ? {} : { inputs: inputs.map((input) => ({ ...input, view: view(input.view) })) };
