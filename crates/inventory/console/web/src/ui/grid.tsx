// A table of any length: rows outside the view are not in the page.
import { defaultRangeExtractor, type Range, useVirtualizer } from "@tanstack/react-virtual";
import { type KeyboardEvent, type MouseEvent, type ReactNode, useCallback, useEffect, useLayoutEffect, useRef, useState } from "react";
import { isPlainClick, navigate } from "../router";
import { Icon } from "./icons";
import { NARROW, useMedia } from "./media";
import { useScroller } from "./page";
import { ROW_HEIGHT, useDensity } from "./preferences";
import { Skeleton } from "./states";

/** Rows beyond the edges of the view that are drawn too. */
const OVERSCAN = 10;
/** The height of the header; a row that is scrolled to must not hide behind it. */
const HEADER_HEIGHT = 32;
/** The height of a row with two lines on a narrow screen. */
const NARROW_HEIGHT = 56;
/** What a second line of text adds to a row. */
const SECOND_LINE = 16;
/** How far around its old place a row that has the focus is looked for after a refresh. */
const NEARBY = 100;

export interface Column<Row> {
  id: string;
  title: string;
  /** A track of a CSS grid, such as `minmax(8rem, 1fr)`. */
  width: string;
  /** Numbers stand to the right. */
  end?: boolean;
  /** The sort that its header sets. */
  sort?: string;
  cell(row: Row): ReactNode;
}

export interface Sorting {
  key: string;
  descending: boolean;
}

interface GridProps<Row> {
  /** What the table lists, for screen readers. */
  label: string;
  columns: readonly Column<Row>[];
  count: number;
  row(index: number): Row | undefined;
  rowKey(row: Row): string;
  /** Where a row leads; null if it leads nowhere. */
  href(row: Row): string | null;
  muted?(row: Row): boolean;
  /** Rows have room for two lines of text. */
  isTall?: boolean;
  /** A row with two lines, for a narrow screen. */
  narrow(row: Row): ReactNode;
  sorting?: Sorting;
  onSort?(key: string): void;
  /** Says which rows are in view, last index excluded. */
  onRange?(from: number, to: number): void;
}

export function Grid<Row>(props: GridProps<Row>) {
  const { columns, count, onRange } = props;
  const scroller = useScroller();
  const isNarrow = useMedia(NARROW);
  const [density] = useDensity();
  const rowHeight = isNarrow ? NARROW_HEIGHT : ROW_HEIGHT[density] + (props.isTall ? SECOND_LINE : 0);
  const body = useRef<HTMLDivElement>(null);
  const margin = useOffset(body, scroller);
  const [active, setActive] = useState(0);

  const virtualizer = useVirtualizer({
    count,
    getScrollElement: () => scroller,
    estimateSize: () => rowHeight,
    overscan: OVERSCAN,
    scrollMargin: margin,
    scrollPaddingStart: HEADER_HEIGHT,
    scrollPaddingEnd: 8,
    // The row that Tab reaches stays in the page when it is out of view.
    rangeExtractor: useCallback(
      (range: Range) => {
        const indexes = defaultRangeExtractor(range);
        if (active >= range.count || indexes.includes(active)) return indexes;
        return active < range.startIndex ? [active, ...indexes] : [...indexes, active];
      },
      [active],
    ),
  });
  // Heights change with the density.
  useLayoutEffect(() => virtualizer.measure(), [rowHeight]);

  const from = virtualizer.range?.startIndex ?? 0;
  const to = (virtualizer.range?.endIndex ?? 0) + OVERSCAN;
  useEffect(() => onRange?.(from, Math.max(to, 1)), [from, to, onRange]);

  const focus = useRowFocus(props, body, active, setActive, (index) => virtualizer.scrollToIndex(index));
  const template = isNarrow ? "1fr" : columns.map((column) => column.width).join(" ");

  return (
    // A table of this length cannot be a table element: its rows are placed one by one.
    <div
      className={props.isTall ? "grid grid-tall" : "grid"}
      role="grid"
      aria-label={props.label}
      aria-rowcount={count + 1}
      aria-colcount={isNarrow ? 1 : columns.length}
      style={{ "--columns": template, "--row": `${rowHeight}px` }}
      onKeyDown={focus.onKeyDown}
    >
      <div className={isNarrow ? "grid-head visually-hidden" : "grid-head"} role="rowgroup">
        <div className="grid-row" role="row" aria-rowindex={1}>
          {isNarrow ? (
            <div role="columnheader">{props.label}</div>
          ) : (
            columns.map((column) => <HeaderCell key={column.id} column={column} sorting={props.sorting} onSort={props.onSort} />)
          )}
        </div>
      </div>
      <div ref={body} className="grid-body" role="rowgroup" style={{ height: `${virtualizer.getTotalSize()}px` }}>
        {virtualizer.getVirtualItems().map((item) => (
          <GridRow
            key={item.key}
            grid={props}
            index={item.index}
            top={item.start - margin}
            isNarrow={isNarrow}
            tabIndex={item.index === Math.min(active, count - 1) ? 0 : -1}
            onFocus={focus.onFocus}
          />
        ))}
      </div>
    </div>
  );
}

function HeaderCell<Row>({ column, sorting, onSort }: { column: Column<Row>; sorting: Sorting | undefined; onSort: ((key: string) => void) | undefined }) {
  const { sort } = column;
  const className = column.end ? "cell end" : "cell";
  if (sort === undefined || onSort === undefined) {
    return (
      <div className={className} role="columnheader">
        {column.title}
      </div>
    );
  }
  const isSorted = sorting?.key === sort;
  const direction = sorting?.descending ? "descending" : "ascending";
  return (
    <div className={className} role="columnheader" aria-sort={isSorted ? direction : "none"}>
      <button type="button" className="sort" onClick={() => onSort(sort)}>
        {column.title}
        {isSorted && <Icon name={sorting?.descending ? "down" : "up"} />}
      </button>
    </div>
  );
}

interface GridRowProps<Row> {
  grid: GridProps<Row>;
  index: number;
  top: number;
  isNarrow: boolean;
  tabIndex: number;
  onFocus(index: number): void;
}

function GridRow<Row>({ grid, index, top, isNarrow, tabIndex, onFocus }: GridRowProps<Row>) {
  const row = grid.row(index);
  const place = { transform: `translateY(${top}px)` };
  if (row === undefined) {
    return (
      <div className="grid-row" role="row" aria-rowindex={index + 2} aria-busy="true" data-index={index} tabIndex={tabIndex} style={place} onFocus={() => onFocus(index)}>
        {(isNarrow ? grid.columns.slice(0, 1) : grid.columns).map((column, place) => (
          <div key={column.id} className="cell" role="gridcell">
            <Skeleton width={`${80 - ((index * 17 + place * 29) % 45)}%`} />
          </div>
        ))}
      </div>
    );
  }
  const href = grid.href(row);
  const open = (event: MouseEvent) => {
    // A click on a link is the link's own, and the end of a selection is no click.
    if (href === null || (event.target as Element).closest("a, button") || !getSelection()?.isCollapsed) return;
    if (isPlainClick(event)) navigate(href);
    else if (event.ctrlKey || event.metaKey) window.open(href, "_blank", "noopener");
  };
  return (
    // The name in the row is a link; the row is a larger target for the mouse.
    <div
      className={`grid-row${href === null ? "" : " leads"}${grid.muted?.(row) ? " muted" : ""}`}
      role="row"
      aria-rowindex={index + 2}
      data-index={index}
      tabIndex={tabIndex}
      style={place}
      onClick={open}
      onFocus={() => onFocus(index)}
    >
      {isNarrow ? (
        <div className="cell two-lines" role="gridcell">
          {grid.narrow(row)}
        </div>
      ) : (
        grid.columns.map((column) => (
          <div key={column.id} className={column.end ? "cell end" : "cell"} role="gridcell">
            {column.cell(row)}
          </div>
        ))
      )}
    </div>
  );
}

/** The distance of an element from the start of the box that scrolls. */
function useOffset(element: React.RefObject<HTMLElement | null>, scroller: HTMLElement | null): number {
  const [offset, setOffset] = useState(0);
  useLayoutEffect(() => {
    const content = scroller?.firstElementChild;
    if (!scroller || !content) return;
    const measure = () => {
      const inner = element.current?.getBoundingClientRect().top ?? 0;
      setOffset(Math.round(inner - scroller.getBoundingClientRect().top + scroller.scrollTop));
    };
    measure();
    const observer = new ResizeObserver(measure);
    observer.observe(content);
    return () => observer.disconnect();
  }, [element, scroller]);
  return offset;
}

/** Moves the focus between rows by the keyboard, and keeps it on the same object when rows come and go. */
function useRowFocus<Row>(
  grid: GridProps<Row>,
  body: React.RefObject<HTMLDivElement | null>,
  active: number,
  setActive: (index: number) => void,
  scrollTo: (index: number) => void,
) {
  const wanted = useRef<number | null>(null);
  const key = useRef<string | null>(null);
  const keyAt = (index: number) => {
    const row = grid.row(index);
    return row === undefined ? null : grid.rowKey(row);
  };

  useEffect(() => {
    const known = key.current;
    if (known === null || keyAt(active) === known || !body.current?.contains(document.activeElement)) return;
    for (let distance = 1; distance <= NEARBY; distance += 1) {
      for (const index of [active - distance, active + distance]) {
        if (index < 0 || index >= grid.count || keyAt(index) !== known) continue;
        wanted.current = index;
        setActive(index);
        return;
      }
    }
    key.current = keyAt(active);
  });

  useEffect(() => {
    if (wanted.current === null) return;
    const row = body.current?.querySelector<HTMLElement>(`[data-index="${wanted.current}"]`);
    if (!row) return;
    wanted.current = null;
    row.focus({ preventScroll: true });
  });

  const move = (to: number) => {
    const index = Math.max(0, Math.min(grid.count - 1, to));
    wanted.current = index;
    key.current = keyAt(index);
    scrollTo(index);
    setActive(index);
    const row = body.current?.querySelector<HTMLElement>(`[data-index="${index}"]`);
    row?.focus({ preventScroll: true });
  };

  const onKeyDown = (event: KeyboardEvent<HTMLDivElement>) => {
    const target = event.target as HTMLElement;
    const row = target.closest<HTMLElement>("[data-index]");
    // Keys with a modifier belong to the browser and to the page, but Ctrl-Enter opens the row in a new tab.
    const isModified = event.ctrlKey || event.metaKey || event.altKey;
    const isNewTab = event.key === "Enter" && !event.altKey;
    if (row === null || (isModified && !isNewTab)) return;
    const index = Number(row.dataset.index);
    if (event.key === "ArrowRight" || event.key === "ArrowLeft") {
      moveInside(row, target, event.key === "ArrowRight" ? 1 : -1);
      event.preventDefault();
      return;
    }
    if (event.key === "Enter" && target === row) {
      const here = grid.row(index);
      const href = here === undefined ? null : grid.href(here);
      if (href === null) return;
      event.preventDefault();
      if (event.ctrlKey || event.metaKey) window.open(href, "_blank", "noopener");
      else navigate(href);
      return;
    }
    const step = keyStep(event.key, index, grid.count, Math.max(1, Math.floor((row.parentElement?.closest(".scroll")?.clientHeight ?? 0) / row.offsetHeight) - 2));
    if (step === null) return;
    event.preventDefault();
    move(step);
  };

  return {
    onKeyDown,
    onFocus: (index: number) => {
      key.current = keyAt(index);
      if (index !== active) setActive(index);
    },
  };
}

/** The row that a key leads to; null if the key is none of ours. */
function keyStep(key: string, index: number, count: number, page: number): number | null {
  switch (key) {
    case "ArrowDown":
    case "j":
      return index + 1;
    case "ArrowUp":
    case "k":
      return index - 1;
    case "PageDown":
      return index + page;
    case "PageUp":
      return index - page;
    case "Home":
      return 0;
    case "End":
      return count - 1;
    default:
      return null;
  }
}

/** Moves the focus from a row to its links and between them. */
function moveInside(row: HTMLElement, target: HTMLElement, direction: 1 | -1): void {
  const places = [row, ...row.querySelectorAll<HTMLElement>("a, button")];
  const next = places[places.indexOf(target) + direction];
  next?.focus();
}
