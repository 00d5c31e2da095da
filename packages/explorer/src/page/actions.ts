/** What the header offers: a permalink, files to keep, the theme. */
import { toHash } from "../model/state.ts";
import { download, fill, h } from "./dom.ts";
import type { Session } from "./session.ts";

/** `light`, `dark`, or empty for the system's. */
function applyTheme(theme: string): void {
  if (theme === "") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
}

const themeKey = "tilewright-theme";

export function startTheme(): void {
  applyTheme(localStorage.getItem(themeKey) ?? "");
}

function themeChoice(): HTMLElement {
  const input = h(
    "select",
    { "aria-label": "Theme" },
    [
      ["", "system"],
      ["light", "light"],
      ["dark", "dark"],
    ].map(([value = "", name = ""]) => h("option", { value }, name)),
  );
  input.value = localStorage.getItem(themeKey) ?? "";
  input.addEventListener("change", () => {
    localStorage.setItem(themeKey, input.value);
    applyTheme(input.value);
  });
  return input;
}

export function drawActions(parent: HTMLElement, session: Session): void {
  const said = h("span", { role: "status", class: "hint" });
  const link = h("button", { type: "button" }, "Copy link");
  link.addEventListener("click", async () => {
    const address = `${location.href.split("#")[0]}#${await toHash(session.state)}`;
    try {
      await navigator.clipboard.writeText(address);
      said.textContent = "copied";
    } catch {
      said.textContent = "it stands in the address bar";
    }
    setTimeout(() => {
      said.textContent = "";
    }, 2500);
  });
  const keep = h(
    "select",
    { "aria-label": "Download" },
    h("option", { value: "" }, "Download …"),
    h("option", { value: "ptx" }, "PTX"),
    h("option", { value: "manifest" }, "Manifest"),
    h("option", { value: "tile" }, "Program, last stage"),
  );
  keep.addEventListener("change", () => {
    const { kernel } = session;
    const name = kernel?.entry ?? "kernel";
    if (kernel !== null && keep.value === "ptx") download(`${name}.ptx`, "text/plain", kernel.ptx);
    if (kernel !== null && keep.value === "manifest")
      download(`${name}.gemm.json`, "application/json", kernel.manifest);
    if (kernel !== null && keep.value === "tile")
      download(`${name}.tile`, "text/plain", kernel.steps.at(-1)?.text ?? "");
    keep.value = "";
  });
  fill(parent, said, link, keep, themeChoice());
}
