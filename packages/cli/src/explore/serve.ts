/**
 * The explorer's files over HTTP on this machine. All work is done in the browser but one thing: where this machine has ptxas and nvdisasm, the page
 * sends the PTX it shows to `POST sass`, and gets its machine code.
 */
import { existsSync, readFileSync } from "node:fs";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { extname, join, normalize } from "node:path";
import { fileURLToPath } from "node:url";
import { type Checked, ok } from "@tilewright/core";
import { codes, failWith } from "../codes.ts";
import type { SassLine } from "../tools/nvdisasm.ts";

/** Machine code of a PTX text for an architecture. */
export type Disassembler = (ptx: string, arch: string) => Promise<Checked<readonly SassLine[]>>;

/** Beside the built command line, or in the workspace. */
const places = ["./explorer/", "../../../explorer/dist/"].map((path) =>
  fileURLToPath(new URL(path, import.meta.url)),
);

const LAST_PORT = 65_535;

const types: Readonly<Record<string, string>> = {
  ".html": "text/html; charset=utf-8",
  ".js": "text/javascript; charset=utf-8",
  ".css": "text/css; charset=utf-8",
  ".svg": "image/svg+xml",
};

/** What tells the page that its server disassembles. */
const offer = '<meta name="sass" content="yes" />';

/** The page loads from its own address only, and opens connections to that alone. */
const policy =
  "default-src 'self'; style-src 'self' 'unsafe-inline'; script-src 'self' 'unsafe-eval' 'wasm-unsafe-eval'; img-src 'self' data: blob:; worker-src 'self' blob:";

const refuse = (response: ServerResponse, status: number, why: string): void => {
  response.writeHead(status, { "content-type": "text/plain" }).end(`${why}\n`);
};

function sendFile(response: ServerResponse, folder: string, url: string, offered: boolean): void {
  const path = normalize(new URL(url, "http://localhost").pathname);
  const file = join(folder, path === "/" ? "index.html" : path);
  if (!file.startsWith(folder) || !existsSync(file) || extname(file) === "") {
    refuse(response, 404, "there is no such file");
    return;
  }
  const data = readFileSync(file);
  response
    .writeHead(200, {
      "content-type": types[extname(file)] ?? "application/octet-stream",
      "content-security-policy": policy,
    })
    .end(offered && extname(file) === ".html" ? String(data).replace("</head>", `${offer}</head>`) : data);
}

/** Bytes of the largest request that is read. */
const mostBytes = 16 * 2 ** 20;

/** The request's JSON; null where it is none, or is too long. */
async function jsonOf(request: IncomingMessage): Promise<Readonly<Record<string, unknown>> | null> {
  let text = "";
  for await (const chunk of request.setEncoding("utf8")) {
    text += String(chunk);
    if (text.length > mostBytes) return null;
  }
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null ? { ...value } : null;
  } catch {
    return null;
  }
}

/** Only the page itself is served: another site's page sends its own Origin, or the name that it has pointed at this machine. */
const fromOwnPage = ({ headers: { host = "", origin } }: IncomingMessage): boolean =>
  /^(?:127\.0\.0\.1|localhost)(?::\d+)?$/.test(host) && origin === `http://${host}`;

async function sendSass(
  request: IncomingMessage,
  response: ServerResponse,
  disassemble: Disassembler,
): Promise<void> {
  if (!fromOwnPage(request)) {
    refuse(response, 403, "only the explorer's own page may ask");
    return;
  }
  const { ptx, arch } = (await jsonOf(request)) ?? {};
  if (typeof ptx !== "string" || typeof arch !== "string" || !/^sm_\w+$/.test(arch)) {
    refuse(response, 400, 'a request is {"ptx": "…", "arch": "sm_90a"}');
    return;
  }
  const made = await disassemble(ptx, arch);
  response
    .writeHead(200, { "content-type": "application/json" })
    .end(JSON.stringify(made.ok ? { lines: made.value } : { diagnostics: made.error }));
}

/** Listen on 127.0.0.1; port 0 takes a free one. `folders`: where the files may be, each with a separator at its end; `disassemble`: null where this machine cannot. Errors: files that are not there (TW7010), a port that is taken (TW7003). */
export async function serveExplorer(
  port: number,
  folders: readonly string[] = places,
  disassemble: Disassembler | null = null,
): Promise<Checked<{ readonly url: string; readonly server: Server }>> {
  if (!Number.isInteger(port) || port < 0 || port > LAST_PORT)
    return failWith(codes.badValue, "--port", `${port} is no port`, {
      hint: `ports are whole numbers up to ${LAST_PORT}; --port 0 takes a free one`,
    });
  const folder = folders.find((place) => existsSync(join(place, "index.html")));
  if (folder === undefined)
    return failWith(codes.unreadable, "explorer", "the explorer's files are not beside this program", {
      hint: "in a clone: npm run build",
    });
  const server = createServer((request, response) => {
    const url = request.url ?? "/";
    if (request.method === "POST" && url === "/sass" && disassemble !== null)
      void sendSass(request, response, disassemble).catch(() => refuse(response, 500, "no machine code"));
    else sendFile(response, folder, url, disassemble !== null);
  });
  const failure = await new Promise<Error | null>((resolve) => {
    server.once("error", resolve);
    server.listen(port, "127.0.0.1", () => resolve(null));
  });
  if (failure !== null)
    return failWith(codes.badValue, "--port", `cannot listen on port ${port}: ${failure.message}`, {
      hint: "--port 0 takes a free one",
    });
  const address = server.address();
  const bound = typeof address === "object" && address !== null ? address.port : port;
  return ok({ url: `http://127.0.0.1:${bound}/`, server });
}
