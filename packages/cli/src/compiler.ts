/** The compiler with every backend of this workspace. */
import { type Compiler, createCompiler } from "@tilewright/ir";
import { backends } from "./backends.ts";
import type { Context } from "./context.ts";
import { version } from "./version.ts";

export const compiler = createCompiler({ backends, version });

/** The compiler that a command works with. */
export const compilerOf = (context: Context): Compiler => context.compiler ?? compiler;
