// What a person chose, kept in the browser.
import { useSyncExternalStore } from "react";

export type Theme = "system" | "light" | "dark";
export type Density = "comfortable" | "compact";

const PREFIX = "trustplane.";
const listeners = new Set<() => void>();

function read(name: string): string | null {
  try {
    return localStorage.getItem(PREFIX + name);
  } catch {
    return null;
  }
}

/** Keeps a choice, or forgets it. A browser without storage forgets it with the page. */
export function keep(name: string, value: string | null): void {
  try {
    if (value === null) localStorage.removeItem(PREFIX + name);
    else localStorage.setItem(PREFIX + name, value);
  } catch {
    // Storage can be switched off: the choice holds for this page.
  }
  for (const listener of listeners) listener();
}

/** A kept choice, or null. */
export function useKept(name: string): string | null {
  return useSyncExternalStore(
    (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    () => read(name),
  );
}

export function useTheme(): [Theme, (theme: Theme) => void] {
  const kept = useKept("theme");
  const theme: Theme = kept === "light" || kept === "dark" ? kept : "system";
  return [
    theme,
    (next) => {
      if (next === "system") delete document.documentElement.dataset.theme;
      else document.documentElement.dataset.theme = next;
      keep("theme", next === "system" ? null : next);
    },
  ];
}

/** The height of a row in pixels, by density. */
export const ROW_HEIGHT: Record<Density, number> = { comfortable: 36, compact: 28 };

export function useDensity(): [Density, (density: Density) => void] {
  const density: Density = useKept("density") === "compact" ? "compact" : "comfortable";
  return [
    density,
    (next) => {
      if (next === "compact") document.documentElement.dataset.density = next;
      else delete document.documentElement.dataset.density;
      keep("density", next === "compact" ? next : null);
    },
  ];
}
