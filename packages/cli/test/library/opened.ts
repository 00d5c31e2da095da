/** A library that a test has just written, on the emulator. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { ArchName } from "@tilewright/core";
import { KernelLibrary, openDevice } from "@tilewright/runtime";

/** The library in `out` of a folder, on the emulator of a GPU; `buffer` puts bytes into its memory. */
export async function opened(folder: { readonly path: string }, arch: ArchName) {
  const device = await openDevice({ kind: "emulator", arch });
  if (!device.ok) throw new Error("the emulator is always there");
  const read = (path: string) => readFileSync(join(folder.path, "out", path));
  const library = KernelLibrary.open(device.value, JSON.parse(String(read("index.json"))), read);
  if (!library.ok) throw new Error("the index was just written");
  const buffer = (bytes: Uint8Array) => {
    const found = device.value.alloc(bytes.length);
    if (!found.ok) throw new Error("memory");
    found.value.write(bytes);
    return found.value;
  };
  return { device: device.value, library: library.value, buffer };
}
