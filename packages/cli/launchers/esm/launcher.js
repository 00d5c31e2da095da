/**
 * Kernel library LIB, made by tilewright @VERSION@. Generated: do not edit. Needs @tilewright/runtime.
 *
 *   import { open, @FIRST@ } from "./LIB.js";
 *   const library = open(device); // a Device of @tilewright/runtime: a GPU or the emulator
 *   if (library.ok) @FIRST@(library.value, @ARGUMENTS@, stream);
 */
import { readFileSync } from "node:fs";
import { KernelLibrary } from "@tilewright/runtime";

const read = (path) => readFileSync(new URL(path, import.meta.url));

/** The library on a device; a result as everything of the runtime. */
export const open = (device) => KernelLibrary.open(device, JSON.parse(String(read("index.json"))), read);

/* @WEIGHTS@ */

/* @OPERATIONS@ */
