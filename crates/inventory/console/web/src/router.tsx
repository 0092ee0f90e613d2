// A router of one screenful: the URL is the state, and nothing else is.
import { createContext, type ComponentPropsWithoutRef, type MouseEvent, useContext, useMemo, useSyncExternalStore } from "react";

interface Entry {
  /** Names an entry of the history, so that its scroll position can be found again. */
  key: number;
}

export interface Navigation {
  /** How the page was reached. */
  kind: "push" | "replace" | "pop" | "load";
  key: number;
  /** Where the page starts: at the top, where it was left, or where it is. */
  scroll: "top" | "restore" | "stay";
}

const listeners = new Set<() => void>();
const scrollPositions = new Map<number, number>();
let lastKey = 0;
let navigation: Navigation = { kind: "load", key: 0, scroll: "top" };

/** The element that scrolls; its position belongs to the entry of the history. */
let scroller: HTMLElement | null = null;

export function setScroller(element: HTMLElement | null): void {
  scroller = element;
}

function remember(): void {
  if (scroller) scrollPositions.set(navigation.key, scroller.scrollTop);
}

function changed(next: Navigation): void {
  navigation = next;
  for (const listener of listeners) listener();
}

export interface NavigateOptions {
  /** The new address takes the place of the current entry of the history. */
  replace?: boolean;
  /** The page starts at the top although the entry stays the same. */
  toTop?: boolean;
}

/** Goes to a path of the console. */
export function navigate(to: string, options: NavigateOptions = {}): void {
  if (to === location.pathname + location.search) return;
  if (options.replace) {
    history.replaceState({ key: navigation.key } satisfies Entry, "", to);
    changed({ kind: "replace", key: navigation.key, scroll: options.toTop ? "top" : "stay" });
  } else {
    remember();
    lastKey += 1;
    history.pushState({ key: lastKey } satisfies Entry, "", to);
    changed({ kind: "push", key: lastKey, scroll: "top" });
  }
}

function onPop(): void {
  remember();
  changed({ kind: "pop", key: (history.state as Entry | null)?.key ?? 0, scroll: "restore" });
}

/** The place in the page where the current entry of the history was left. */
export function rememberedScroll(): number {
  return scrollPositions.get(navigation.key) ?? 0;
}

export function lastNavigation(): Navigation {
  return navigation;
}

function subscribe(listener: () => void): () => void {
  if (listeners.size === 0) {
    history.scrollRestoration = "manual";
    lastKey = Math.max(lastKey, (history.state as Entry | null)?.key ?? 0);
    navigation = { kind: "load", key: lastKey, scroll: "top" };
    addEventListener("popstate", onPop);
  }
  listeners.add(listener);
  return () => {
    listeners.delete(listener);
    if (listeners.size === 0) removeEventListener("popstate", onPop);
  };
}

export interface Place {
  path: string;
  search: URLSearchParams;
}

/** The current place, for the one component that provides it. */
export function usePlaceSource(): Place {
  const text = useSyncExternalStore(subscribe, () => location.pathname + location.search);
  return useMemo(() => {
    const [path = "/", search = ""] = text.split("?", 2);
    return { path, search: new URLSearchParams(search) };
  }, [text]);
}

export const PlaceContext = createContext<Place>({ path: "/", search: new URLSearchParams() });

export function usePlace(): Place {
  return useContext(PlaceContext);
}

/** One value of the search part, and a function that sets it without a new entry in the history. */
export function useSearchValue(name: string, fallback: string): [string, (value: string) => void] {
  const { path, search } = usePlace();
  const set = (value: string) => {
    const next = new URLSearchParams(search);
    if (value === fallback) next.delete(name);
    else next.set(name, value);
    navigate(next.size === 0 ? path : `${path}?${next}`, { replace: true });
  };
  return [search.get(name) ?? fallback, set];
}

/** Whether a click means "here" and not a new tab or a download. */
export function isPlainClick(event: MouseEvent): boolean {
  return event.button === 0 && !event.metaKey && !event.ctrlKey && !event.shiftKey && !event.altKey && !event.defaultPrevented;
}

/** A link to a page of the console. */
export function Link({ href, onClick, ...props }: ComponentPropsWithoutRef<"a"> & { href: string }) {
  return (
    <a
      {...props}
      href={href}
      onClick={(event) => {
        onClick?.(event);
        if (!isPlainClick(event)) return;
        event.preventDefault();
        navigate(href);
      }}
    />
  );
}
