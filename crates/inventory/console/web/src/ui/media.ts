// What the screen permits.
import { useSyncExternalStore } from "react";

/** Room for another column. */
export const WIDE = "(min-width: 1440px)";
/** Rows have two lines instead of columns. */
export const NARROW = "(max-width: 719px)";

/** Whether a media query holds. */
export function useMedia(query: string): boolean {
  return useSyncExternalStore(
    (listener) => {
      const list = matchMedia(query);
      list.addEventListener("change", listener);
      return () => list.removeEventListener("change", listener);
    },
    () => matchMedia(query).matches,
  );
}
