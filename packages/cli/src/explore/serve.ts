/** The explorer's files over HTTP on this machine. They ask nothing of the server: all work is done in the browser. */
import { existsSync, readFileSync } from "node:fs";
import { createServer, type Server, type ServerResponse } from "node:http";
import { extname, join, normalize } from "node:path";
import { fileURLToPath } from "node:url";
import { type Checked, err, ok } from "@tilewright/core";
import { codes, problemWith } from "../codes.ts";

/** Beside the built command line, or in the workspace. */
const places = ["./explorer/", "../../../explorer/dist/"].map((path) =>
  fileURLToPath(new URL(path, import.meta.url)),
);

const types: Readonly<Record<string, string>> = {
  ".html": "text/html; charset=utf-8",
  ".js": "text/javascript; charset=utf-8",
  ".css": "text/css; charset=utf-8",
  ".svg": "image/svg+xml",
};

/** The page loads from its own address only, and opens no connection. */
const policy =
  "default-src 'self'; style-src 'self' 'unsafe-inline'; script-src 'self' 'unsafe-eval' 'wasm-unsafe-eval'; img-src 'self' data: blob:; worker-src 'self' blob:";

function answer(response: ServerResponse, folder: string, url: string): void {
  const path = normalize(new URL(url, "http://localhost").pathname);
  const file = join(folder, path === "/" ? "index.html" : path);
  if (!file.startsWith(folder) || !existsSync(file) || extname(file) === "") {
    response.writeHead(404, { "content-type": "text/plain" }).end("there is no such file\n");
    return;
  }
  response
    .writeHead(200, {
      "content-type": types[extname(file)] ?? "application/octet-stream",
      "content-security-policy": policy,
    })
    .end(readFileSync(file));
}

/** Listen on 127.0.0.1; port 0 takes a free one. `folders`: where the files may be, each with a separator at its end. Errors: files that are not there (TW7010), a port that is taken (TW7003). */
export async function serveExplorer(
  port: number,
  folders: readonly string[] = places,
): Promise<Checked<{ readonly url: string; readonly server: Server }>> {
  const folder = folders.find((place) => existsSync(join(place, "index.html")));
  if (folder === undefined)
    return err([
      problemWith(codes.unreadable, "explorer", "the explorer's files are not beside this program", {
        hint: "in a clone: npm run build",
      }),
    ]);
  const server = createServer((request, response) => answer(response, folder, request.url ?? "/"));
  const failure = await new Promise<Error | null>((resolve) => {
    server.once("error", resolve);
    server.listen(port, "127.0.0.1", () => resolve(null));
  });
  if (failure !== null)
    return err([
      problemWith(codes.badValue, "--port", `cannot listen on port ${port}: ${failure.message}`, {
        hint: "--port 0 takes a free one",
      }),
    ]);
  const address = server.address();
  const bound = typeof address === "object" && address !== null ? address.port : port;
  return ok({ url: `http://127.0.0.1:${bound}/`, server });
}
