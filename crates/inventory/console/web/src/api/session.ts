// Whether the person has a session.
import { useSyncExternalStore } from "react";

const listeners = new Set<() => void>();
let signedOut = false;

/** The hub said that there is no session. Only a sign-in link changes that, and it loads the page again. */
export function setSignedOut(): void {
  signedOut = true;
  for (const listener of listeners) listener();
}

export function useSignedOut(): boolean {
  return useSyncExternalStore(
    (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    () => signedOut,
  );
}
