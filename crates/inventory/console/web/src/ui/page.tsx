// The frame of a page: its title, its heading, and the box that scrolls.
import { createContext, type ReactNode, useContext, useEffect, useLayoutEffect, useRef, useState } from "react";
import { lastNavigation, rememberedScroll, setScroller, usePlace } from "../router";

const ScrollerContext = createContext<HTMLElement | null>(null);

/** The box that scrolls around the current component; null while it is being made. */
export function useScroller(): HTMLElement | null {
  return useContext(ScrollerContext);
}

/** A box that scrolls and that comes back to where it was when a person goes back. */
export function ScrollArea({ className, children }: { className: string; children: ReactNode }) {
  const [element, setElement] = useState<HTMLDivElement | null>(null);
  const place = usePlace();

  useLayoutEffect(() => {
    if (element === null) return;
    setScroller(element);
    return () => setScroller(null);
  }, [element]);

  // The position belongs to the address, filters included.
  useLayoutEffect(() => {
    if (element === null) return;
    const { scroll } = lastNavigation();
    if (scroll === "stay") return;
    const target = scroll === "restore" ? rememberedScroll() : 0;
    element.scrollTop = target;
    if (element.scrollTop >= target || element.firstElementChild === null) return;
    // The rows are not there yet: the position is reached when the content has grown.
    const observer = new ResizeObserver(() => {
      element.scrollTop = target;
      if (element.scrollTop >= target) observer.disconnect();
    });
    observer.observe(element.firstElementChild);
    const stop = () => observer.disconnect();
    element.addEventListener("wheel", stop, { once: true, passive: true });
    return stop;
  }, [element, place]);

  return (
    <div ref={setElement} className={`scroll ${className}`}>
      <ScrollerContext value={element}>
        <div className="scroll-content">{children}</div>
      </ScrollerContext>
    </div>
  );
}

/** Sets the title of the window. */
export function useTitle(title: string): void {
  useEffect(() => {
    document.title = `${title} · Trustplane`;
  }, [title]);
}

/** The heading of the page. It takes the focus when a person comes from another page, so that a screen reader reads it. */
export function Heading({ children, mono = false }: { children: ReactNode; mono?: boolean }) {
  const heading = useRef<HTMLHeadingElement>(null);
  const { path } = usePlace();
  useEffect(() => {
    const { kind } = lastNavigation();
    if (kind === "push" || kind === "pop") heading.current?.focus({ preventScroll: true });
  }, [path]);
  return (
    <h1 ref={heading} tabIndex={-1} className={mono ? "mono" : undefined}>
      {children}
    </h1>
  );
}
