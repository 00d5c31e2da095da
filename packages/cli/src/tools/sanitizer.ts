/** NVIDIA's compute-sanitizer, where it is installed. Optional: it looks at kernels on a GPU, as the emulator's hazards do without one. */
import { join } from "node:path";
import { execa } from "execa";
import type { Context } from "../context.ts";

/** Starting it takes a second on a slow disk. Milliseconds. */
const timeout = 20_000;

/** The program: the one on PATH, else the toolkit's. */
const places = ({ env }: Context): readonly string[] => [
  "compute-sanitizer",
  ...[env.CUDA_HOME, env.CUDA_PATH, "/usr/local/cuda"].flatMap((root) =>
    root === undefined || root === "" ? [] : [join(root, "bin/compute-sanitizer")],
  ),
];

/** How to get it. */
export const getSanitizer =
  "install the CUDA toolkit (package cuda-sanitizer); `tilewright emulate` and `run --device emulator` find races and bad accesses without it";

/** Its version and where it is; null when there is none. */
export async function findSanitizer(
  context: Context,
): Promise<{ readonly version: string; readonly program: string } | null> {
  for (const program of places(context)) {
    const { exitCode, stdout } = await execa(program, ["--version"], {
      env: context.env,
      extendEnv: false,
      reject: false,
      timeout,
    });
    if (exitCode === 0) return { version: /Version (\S+)/i.exec(stdout)?.[1] ?? "unknown", program };
  }
  return null;
}
