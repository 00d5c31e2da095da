/** The user's own defaults: a JSON file where the XDG base directories say. Flags, and what files of a request say, go before them. */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { type Checked, diagnosticsOfIssues, err, ok } from "@tilewright/core";
import { z } from "zod";
import { codes } from "../codes.ts";
import type { Context } from "../context.ts";
import { readJsonFile } from "../files/json.ts";
import { colourModes } from "../output/colour.ts";

export const configSchema = z
  .strictObject({
    $schema: z.string().optional(),
    arch: z.string().optional().describe("--arch where neither flags nor a file name one"),
    color: z.enum(colourModes).optional().describe("--color"),
    device: z.enum(["auto", "cuda", "emulator"]).optional().describe("--device"),
    timeout: z.int().positive().optional().describe("--timeout"),
  })
  .describe("defaults of flags: $XDG_CONFIG_HOME/tilewright/config.json");

export type Config = z.output<typeof configSchema>;

/** The user's folder by the XDG base directories; null where nothing says. */
export function configFolder(env: Context["env"]): string | null {
  const home = env.XDG_CONFIG_HOME || (env.HOME ? join(env.HOME, ".config") : null);
  return home === null ? null : join(home, "tilewright");
}

/** Where the file is looked for; null where nothing says. TILEWRIGHT_CONFIG names another, or none when it is empty. */
function configPath({ env }: Pick<Context, "env">): string | null {
  if (env.TILEWRIGHT_CONFIG !== undefined) return env.TILEWRIGHT_CONFIG === "" ? null : env.TILEWRIGHT_CONFIG;
  const folder = configFolder(env);
  return folder === null ? null : join(folder, "config.json");
}

/** The file's defaults; none where there is no file, unless TILEWRIGHT_CONFIG names it. */
export function readConfig(context: Context): Checked<Config> {
  const path = configPath(context);
  if (path === null || (context.env.TILEWRIGHT_CONFIG === undefined && !existsSync(path))) return ok({});
  const file = readJsonFile(context, path);
  if (!file.ok) return file;
  const { value, locate } = file.value;
  const parsed = configSchema.safeParse(value);
  if (parsed.success) return ok(parsed.data);
  const keys = () => Object.keys(configSchema.shape);
  return err(locate(diagnosticsOfIssues(parsed.error.issues, value, codes.badJson.code, path, keys)));
}

/** Flags that say by themselves what a command compiles for. */
const states = ["from", "request", "kernels"];

/** The defaults as words of a command line, for a command whose flags of these keys were given. */
export function defaultsOf(
  { $schema: _, arch, ...rest }: Config,
  given: ReadonlySet<string>,
): Readonly<Record<string, string>> {
  const all = { ...rest, ...(states.some((key) => given.has(key)) ? {} : { arch }) };
  return Object.fromEntries(
    Object.entries(all).flatMap(([key, value]) => (value === undefined ? [] : [[key, String(value)]])),
  );
}
