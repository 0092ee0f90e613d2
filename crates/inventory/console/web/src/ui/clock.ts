// The current time for ages on the page: one timer for all of them.
import { useSyncExternalStore } from "react";

/** How often ages are drawn again. */
const TICK = 5000;

const listeners = new Set<() => void>();
let now = Date.now();
let timer: ReturnType<typeof setInterval> | undefined;

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  now = Date.now();
  timer ??= setInterval(() => {
    now = Date.now();
    for (const each of listeners) each();
  }, TICK);
  return () => {
    listeners.delete(listener);
    if (listeners.size === 0) {
      clearInterval(timer);
      timer = undefined;
    }
  };
}

/** The time, renewed every few seconds. */
export function useNow(): number {
  return useSyncExternalStore(subscribe, () => now);
}
