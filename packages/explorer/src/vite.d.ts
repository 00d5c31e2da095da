/** What the bundler puts in the place of `import.meta.glob`: the texts of files by their path. */
interface ImportMeta {
  glob<T>(
    patterns: readonly string[],
    options: { readonly query: string; readonly import: string; readonly eager: true },
  ): Readonly<Record<string, T>>;
}

/** What vite.config.ts makes when the page is built. */
declare module "virtual:prepared" {
  export const prepared: import("./worker/prepared.ts").Prepared;
}
