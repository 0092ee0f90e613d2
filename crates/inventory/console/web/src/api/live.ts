// Changes as the hub announces them, and whether it can be reached.

/** Changes are passed on at most this often, so that a busy fleet does not redraw the page all the time. */
const FLUSH_EVERY = 1000;
/** The first wait before a closed stream is opened again; it doubles up to the last. */
const FIRST_WAIT = 1000;
const LAST_WAIT = 15_000;

export type LiveState = "connecting" | "live" | "offline";

export interface LiveListener {
  /** Kinds by cluster; null stands for everything in the cluster. */
  onChanges(changes: Map<string, Set<string> | null>): void;
  /** The stream has just opened, or the hub dropped announcements: the page may have missed any change. */
  onReturn(): void;
  /** The stream is open or lost. */
  onState(state: LiveState, since: number): void;
}

/** The part of a document that says whether a person can see it. */
export type Visibility = Pick<Document, "hidden" | "addEventListener" | "removeEventListener">;

/**
 * Listens to the stream of changes until the returned function is called. A hidden page has no stream: browsers permit six connections
 * to a hub over HTTP/1.1, for all tabs together.
 */
export function listen(path: string, listener: LiveListener, page: Visibility = document): () => void {
  let source: EventSource | null = null;
  let lost = false;
  let wait = FIRST_WAIT;
  let reopen: ReturnType<typeof setTimeout> | undefined;
  const changes = new ChangeBatcher(listener.onChanges);

  const open = () => {
    const opened = new EventSource(path);
    source = opened;
    opened.onopen = () => {
      wait = FIRST_WAIT;
      lost = false;
      listener.onState("live", Date.now());
      listener.onReturn();
    };
    opened.onerror = () => {
      if (!lost) listener.onState("offline", Date.now());
      lost = true;
      // A browser tries again by itself only while the stream is not closed; an answer such as 401 closes it.
      if (opened.readyState === EventSource.CLOSED) {
        clearTimeout(reopen);
        reopen = setTimeout(open, wait);
        wait = Math.min(wait * 2, LAST_WAIT);
      }
    };
    opened.addEventListener("change", (event) => changes.add(event.data as string));
    opened.addEventListener("cluster", (event) => changes.add(event.data as string));
    // The hub had more announcements than it could keep for this page.
    opened.addEventListener("reload", () => listener.onReturn());
  };
  const close = () => {
    clearTimeout(reopen);
    source?.close();
    source = null;
  };
  const onVisibility = () => {
    close();
    wait = FIRST_WAIT;
    if (!page.hidden) open();
  };
  page.addEventListener("visibilitychange", onVisibility);
  if (!page.hidden) open();
  return () => {
    page.removeEventListener("visibilitychange", onVisibility);
    changes.stop();
    close();
  };
}

/** Passes the first announcement on at once, and those of the next second together. */
export class ChangeBatcher {
  #waiting = new Map<string, Set<string> | null>();
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(private readonly pass: (changes: Map<string, Set<string> | null>) => void) {}

  /** Takes the text of one announcement; text that cannot be read is left out. */
  add(text: string): void {
    const change = read(text);
    if (change === null) return;
    const known = this.#waiting.get(change.cluster);
    if (change.kinds === null) this.#waiting.set(change.cluster, null);
    else if (known === undefined) this.#waiting.set(change.cluster, new Set(change.kinds));
    else if (known !== null) for (const kind of change.kinds) known.add(kind);
    if (this.#timer === undefined) this.#flush();
  }

  stop(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
  }

  #flush(): void {
    if (this.#waiting.size === 0) {
      this.#timer = undefined;
      return;
    }
    const changes = this.#waiting;
    this.#waiting = new Map();
    this.pass(changes);
    this.#timer = setTimeout(() => this.#flush(), FLUSH_EVERY);
  }
}

function read(text: string): { cluster: string; kinds: string[] | null } | null {
  try {
    const data = JSON.parse(text) as { cluster?: unknown; kinds?: unknown };
    if (typeof data.cluster !== "string") return null;
    return { cluster: data.cluster, kinds: Array.isArray(data.kinds) ? data.kinds.map(String) : null };
  } catch {
    return null;
  }
}
