/** `tilewright explore`: the explorer in a browser, from this machine's own files. */
import { z } from "zod";
import { serveExplorer } from "../explore/serve.ts";
import { defineCommand } from "../kit/command.ts";
import { number } from "../kit/flags.ts";

const args = z.strictObject({
  port: number("port to listen on (default: a free one)", { hint: "N" }),
});

export const explore = defineCommand({
  name: "explore",
  summary: "kernels in a browser: every stage, edited and run as one types",
  about: `Serves the explorer on 127.0.0.1 until it is interrupted, and prints its address. The page compiles and emulates in the browser:
nothing leaves this machine. What it shows stands in its address, which can be kept and sent.`,
  args,
  examples: [
    { what: "open the printed address in a browser", line: "explore" },
    { what: "on a port of your choice", line: "explore --port 8080" },
  ],
  async run(session, { port = 0 }) {
    const served = await serveExplorer(port);
    if (!served.ok) return session.fail(served.error);
    const { url } = served.value;
    session.result({ ok: true, url }, () => `${url}\n`);
    session.note("Ctrl-C ends it");
    return new Promise<number>(() => {});
  },
});
