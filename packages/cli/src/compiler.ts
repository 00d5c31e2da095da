/** The compiler with every backend of this workspace. */
import { createCompiler } from "@tilewright/ir";
import { backends } from "./backends.ts";
import { version } from "./version.ts";

export const compiler = createCompiler({ backends, version });
