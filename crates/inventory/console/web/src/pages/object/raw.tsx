// The object as the hub keeps it.
import type { ReactNode } from "react";
import type { ObjectDetail } from "../../api/types";
import { Age, Section } from "../../ui/atoms";

/** Fields that stand for something whose values stay in the cluster. */
const NAMES_ONLY = new Map([
  ["data_keys", "names only: values never leave the cluster"],
  ["binary_keys", "names only: values never leave the cluster"],
  ["env_var_names", "names only: values never leave the cluster"],
  ["annotations", "without those that carry manifests"],
]);

/** What is no longer than this stays on one line. */
const ONE_LINE = 88;

export function Raw({ object }: { object: ObjectDetail }) {
  return (
    <Section
      title="As the hub has it"
      note={
        <>
          first seen <Age time={object.first_seen} suffix=" ago" />, changed <Age time={object.changed} suffix=" ago" />
        </>
      }
    >
      {/* The box scrolls, so the keyboard must reach it. */}
      <pre className="raw" tabIndex={0} role="region" aria-label="The object as JSON">
        <code>
          <Value value={object.object} depth={0} />
        </code>
      </pre>
    </Section>
  );
}

function Value({ value, depth }: { value: unknown; depth: number }): ReactNode {
  if (Array.isArray(value)) {
    if (value.length === 0) return "[]";
    if (isShort(value)) {
      return (
        <>
          [
          {value.map((item, index) => (
            // The order is the identity of an item.
            <span key={index}>
              {index > 0 && ", "}
              <Value value={item} depth={depth} />
            </span>
          ))}
          ]
        </>
      );
    }
    return (
      <>
        {"[\n"}
        {value.map((item, index) => (
          // The order is the identity of an item.
          <span key={index}>
            {indent(depth + 1)}
            <Value value={item} depth={depth + 1} />
            {index < value.length - 1 ? ",\n" : "\n"}
          </span>
        ))}
        {`${indent(depth)}]`}
      </>
    );
  }
  if (typeof value === "object" && value !== null) {
    const entries = Object.entries(value);
    if (entries.length === 0) return "{}";
    if (depth > 0 && isShort(value)) {
      return (
        <>
          {"{ "}
          {entries.map(([key, inner], index) => (
            <span key={key}>
              {index > 0 && ", "}
              <span className="raw-key">{JSON.stringify(key)}</span>: <Value value={inner} depth={depth} />
            </span>
          ))}
          {" }"}
        </>
      );
    }
    return (
      <>
        {"{\n"}
        {entries.map(([key, inner], index) => (
          <span key={key}>
            {indent(depth + 1)}
            <span className="raw-key">{JSON.stringify(key)}</span>
            {": "}
            {NAMES_ONLY.has(key) && <span className="raw-note">{`/* ${NAMES_ONLY.get(key)} */ `}</span>}
            <Value value={inner} depth={depth + 1} />
            {index < entries.length - 1 ? ",\n" : "\n"}
          </span>
        ))}
        {`${indent(depth)}}`}
      </>
    );
  }
  const text = JSON.stringify(value) ?? "null";
  return <span className={typeof value === "string" ? "raw-string" : "raw-other"}>{text}</span>;
}

/** Whether a value fits on a line of its own: it holds nothing deeper and is not long. */
function isShort(value: object): boolean {
  const isFlat = Object.values(value).every((inner) => typeof inner !== "object" || inner === null);
  return isFlat && JSON.stringify(value).length <= ONE_LINE;
}

function indent(depth: number): string {
  return "  ".repeat(depth);
}
