// A long list that is loaded page by page as far as a person looks, and refreshed only where a person looks.

/** The first page is short, so that something is seen at once. */
export const FIRST_PAGE = 100;
/** Later pages are as long as the hub permits. */
export const NEXT_PAGE = 500;

export interface Page<Row> {
  items: Row[];
  next: string | null;
  total?: number;
}

export type FetchPage<Row> = (cursor: string | null, limit: number, signal: AbortSignal) => Promise<Page<Row>>;

interface Loaded {
  cursor: string | null;
  limit: number;
  /** The index of its first row. */
  start: number;
  length: number;
  next: string | null;
  fresh: boolean;
}

/** What a list shows at one moment. */
export interface ListView<Row> {
  /** How many rows there are; null until the first answer. */
  total: number | null;
  /** The row at an index, if it was loaded. */
  row(index: number): Row | undefined;
  error: Error | null;
  /** Grows with every change of what is shown. */
  revision: number;
}

/**
 * Loads rows by cursor. Pages that are in view are asked for again after a change; pages above keep their rows until they come into
 * view; pages below a page that moved are loaded again when they come into view. Rows stay visible until they are replaced.
 */
export class PagedList<Row> {
  #pages: Loaded[] = [];
  #rows: Row[] = [];
  #total: number | null = null;
  #error: Error | null = null;
  #revision = 0;
  #view: ListView<Row>;
  #from = 0;
  #to = 0;
  #abort: AbortController | null = null;
  #changedMeanwhile = false;
  readonly #listeners = new Set<() => void>();

  constructor(private readonly fetchPage: FetchPage<Row>) {
    this.#view = this.#look();
  }

  subscribe = (listener: () => void): (() => void) => {
    // A person who comes back to the list has not seen the error: the list tries again.
    if (this.#listeners.size === 0 && this.#error !== null) {
      this.#error = null;
      this.#view = this.#look();
    }
    this.#listeners.add(listener);
    void this.#work();
    return () => {
      this.#listeners.delete(listener);
      if (this.#listeners.size > 0) return;
      this.#abort?.abort();
      this.#abort = null;
    };
  };

  view = (): ListView<Row> => this.#view;

  /** Says which rows are in view, last index excluded. */
  want(from: number, to: number): void {
    if (from === this.#from && to === this.#to) return;
    this.#from = from;
    this.#to = to;
    void this.#work();
  }

  /** Every row may have changed. */
  invalidate(): void {
    for (const page of this.#pages) page.fresh = false;
    this.#changedMeanwhile = true;
    this.#error = null;
    void this.#work();
  }

  /** Tries again after an error. */
  retry(): void {
    this.#error = null;
    this.#publish();
    void this.#work();
  }

  async #work(): Promise<void> {
    if (this.#abort !== null || this.#listeners.size === 0) return;
    const abort = new AbortController();
    this.#abort = abort;
    try {
      for (let page = this.#needed(); page !== null && this.#error === null; page = this.#needed()) {
        this.#changedMeanwhile = false;
        const answer = await this.fetchPage(page.cursor, page.limit, abort.signal);
        if (abort.signal.aborted) return;
        this.#take(page, answer);
      }
    } catch (error) {
      if (abort.signal.aborted) return;
      this.#error = error instanceof Error ? error : new Error(String(error));
      this.#publish();
    } finally {
      if (this.#abort === abort) this.#abort = null;
    }
  }

  /** The page to ask for next, or null if all that is in view is loaded and fresh. */
  #needed(): Loaded | null {
    const last = this.#pages.at(-1);
    if (last === undefined) return { cursor: null, limit: FIRST_PAGE, start: 0, length: 0, next: null, fresh: false };
    const to = Math.max(this.#to, this.#from + 1);
    const stale = this.#pages.find((page, index) => {
      const isLast = index === this.#pages.length - 1;
      const inView = page.start < to && (page.start + page.length > this.#from || isLast);
      return !page.fresh && inView;
    });
    if (stale !== undefined) return stale;
    const end = last.start + last.length;
    if (last.next === null || to <= end) return null;
    return { cursor: last.next, limit: NEXT_PAGE, start: end, length: 0, next: null, fresh: false };
  }

  #take(page: Loaded, answer: Page<Row>): void {
    const index = this.#pages.indexOf(page);
    const moved = answer.next !== page.next || answer.items.length !== page.length;
    const taken: Loaded = {
      ...page,
      length: answer.items.length,
      next: answer.next,
      fresh: !this.#changedMeanwhile,
    };
    if (index < 0) this.#pages.push(taken);
    else if (moved) this.#pages.splice(index, this.#pages.length, taken);
    else this.#pages[index] = taken;
    answer.items.forEach((row, offset) => {
      this.#rows[taken.start + offset] = row;
    });
    const end = taken.start + taken.length;
    this.#total = answer.next === null ? end : Math.max(answer.total ?? end + 1, end + 1);
    if (this.#rows.length > this.#total) this.#rows.length = this.#total;
    this.#publish();
  }

  #publish(): void {
    this.#revision += 1;
    this.#view = this.#look();
    for (const listener of this.#listeners) listener();
  }

  #look(): ListView<Row> {
    const rows = this.#rows;
    return { total: this.#total, row: (index) => rows[index], error: this.#error, revision: this.#revision };
  }
}
