// Icons as drawings of their own: 16 units wide, in the colour of the text.
import type { ReactNode } from "react";
import type { StatusClass } from "../api/types";

const DRAWINGS = {
  fleet: <path d="M2.5 3.5h11v3.5h-11zM2.5 9h11v3.5h-11zM5 5.25h.01M5 10.75h.01" />,
  resources: <path d="M2.5 4h1M6 4h7.5M2.5 8h1M6 8h7.5M2.5 12h1M6 12h7.5" />,
  search: <path d="M7 11.5a4.5 4.5 0 1 0 0-9 4.5 4.5 0 0 0 0 9ZM10.4 10.4l3.1 3.1" />,
  settings: <path d="M2.5 4.5h5M11 4.5h2.5M2.5 11.5H5M8.5 11.5h5M9.25 6.25a1.75 1.75 0 1 0 0-3.5 1.75 1.75 0 0 0 0 3.5ZM6.75 13.25a1.75 1.75 0 1 0 0-3.5 1.75 1.75 0 0 0 0 3.5Z" />,
  down: <path d="m4.5 6.5 3.5 3.5 3.5-3.5" />,
  up: <path d="M4.5 9.5 8 6l3.5 3.5" />,
  right: <path d="m6.5 4.5 3.5 3.5-3.5 3.5" />,
  close: <path d="m4.5 4.5 7 7M11.5 4.5l-7 7" />,
  check: <path d="m3.5 8.5 3 3 6-7" />,
  plus: <path d="M8 3.5v9M3.5 8h9" />,
  columns: <path d="M2.5 3.5h11v9h-11zM6.2 3.5v9M9.8 3.5v9" />,
  copy: <path d="M5.5 5.5v-3h8v8h-3M2.5 5.5h8v8h-8z" />,
  clock: <path d="M8 13.5a5.5 5.5 0 1 0 0-11 5.5 5.5 0 0 0 0 11ZM8 5v3.2l2 1.3" />,
  offline: <path d="m2.5 2.5 11 11M4.6 8.7a5 5 0 0 1 2-1.1M2.4 6.3A8 8 0 0 1 5 4.7M7.8 4a8 8 0 0 1 5.8 2.3M10.3 8.1c.4.2.8.4 1.1.7M8 12.2h.01" />,
  lock: <path d="M3.5 7.5h9v6h-9zM5.5 7.5V5a2.5 2.5 0 0 1 5 0v2.5" />,
  trash: <path d="M3 4.5h10M6.5 4.5v-2h3v2M4.5 4.5l.5 9h6l.5-9M7 7v4M9 7v4" />,
  filter: <path d="M2.5 4h11M4.5 8h7M6.5 12h3" />,
  bookmark: <path d="M4.5 2.5h7v11L8 10.6l-3.5 2.9z" />,
  enter: <path d="M13 4v4.5H4M6.5 6 4 8.5 6.5 11" />,
} as const;

export type IconName = keyof typeof DRAWINGS;

function Drawing({ children, className }: { children: ReactNode; className?: string | undefined }) {
  return (
    <svg
      className={className ? `icon ${className}` : "icon"}
      viewBox="0 0 16 16"
      width="16"
      height="16"
      fill="none"
      stroke="currentColor"
      strokeWidth="1.5"
      strokeLinecap="round"
      strokeLinejoin="round"
      aria-hidden="true"
    >
      {children}
    </svg>
  );
}

export function Icon({ name, className }: { name: IconName; className?: string }) {
  return <Drawing className={className}>{DRAWINGS[name]}</Drawing>;
}

const SHAPES: Record<StatusClass, ReactNode> = {
  ok: (
    <>
      <circle cx="8" cy="8" r="5.75" />
      <path d="m5.4 8.2 1.8 1.8 3.4-3.8" />
    </>
  ),
  progress: (
    <>
      <circle cx="8" cy="8" r="5.75" strokeDasharray="2.6 1.9" />
      <path d="M8 5.5V8l1.7 1.2" />
    </>
  ),
  warning: (
    <>
      <path d="M8 2.4 14.2 13H1.8Z" />
      <path d="M8 6.4v3M8 11.2h.01" />
    </>
  ),
  error: (
    <>
      <path className="filled" d="M5.4 1.9h5.2l3.5 3.5v5.2l-3.5 3.5H5.4l-3.5-3.5V5.4Z" />
      <path className="cut" d="m6 6 4 4M10 6l-4 4" />
    </>
  ),
  none: <path d="M4.5 8h7" />,
};

/** The icon of a class of status: each class has a shape of its own, so colour is never the only sign. */
export function StatusIcon({ status }: { status: StatusClass }) {
  return <Drawing className={`status-${status}`}>{SHAPES[status]}</Drawing>;
}
