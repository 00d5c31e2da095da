/** `tilewright explore`: the explorer in a browser, from this machine's own files. */
import { z } from "zod";
import { type Disassembler, serveExplorer } from "../explore/serve.ts";
import { defineCommand } from "../kit/command.ts";
import { number } from "../kit/flags.ts";
import { disassemble, nvdisasmVersion } from "../tools/nvdisasm.ts";
import { ptxasVersion } from "../tools/ptxas.ts";

const args = z.strictObject({
  port: number("port to listen on (default: a free one)", "N"),
});

export const explore = defineCommand({
  name: "explore",
  args,
  async run(session, { port = 0 }) {
    const { context } = session;
    const [ptxas, nvdisasm] = await Promise.all([ptxasVersion(context), nvdisasmVersion(context)]);
    const sass: Disassembler | null =
      ptxas === null || nvdisasm === null ? null : (ptx, arch) => disassemble(context, ptx, arch);
    const served = await serveExplorer(port, undefined, sass);
    if (!served.ok) return session.fail(served.error);
    const { url } = served.value;
    session.result({ ok: true, url }, () => `${url}\n`);
    session.note(
      sass === null
        ? "no SASS: that takes ptxas and nvdisasm"
        : `SASS by ptxas ${ptxas}, nvdisasm ${nvdisasm}`,
    );
    session.note("Ctrl-C ends it");
    return new Promise<number>(() => {});
  },
});
