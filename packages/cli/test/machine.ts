/** Commands on ports of their own. */
import type { Context } from "../src/context.ts";
import type { Command } from "../src/kit/command.ts";
import { contextIn, type Outcome } from "./harness.ts";

export { lost, type Machine, machine } from "./fake-gpu.ts";

/** Run a command on ports of its own. A string is split at spaces. */
export async function startCommand(
  command: Command,
  line: string,
  cwd: string,
  more: Partial<Context> = {},
): Promise<Outcome> {
  const out = { stdout: "", stderr: "" };
  const sink = (name: "stdout" | "stderr") => ({
    isTTY: false,
    write(data: string | Uint8Array) {
      out[name] += String(data);
    },
  });
  const code = await command.start(
    { ...contextIn(cwd), ...more, stdout: sink("stdout"), stderr: sink("stderr") },
    line.split(" "),
  );
  return { code, ...out };
}
