// The smallest parts of the pages.
import { type ReactNode, useEffect, useState } from "react";
import { Button } from "react-aria-components/Button";
import type { Cluster, Status } from "../api/types";
import { age, full } from "../model/age";
import { grouped, troubles } from "../model/kinds";
import { stateClass, stateWord } from "../model/status";
import { useNow } from "./clock";
import { Icon, StatusIcon } from "./icons";

/** How long a button says that it copied. */
const COPIED = 1500;

/** The status of an object: icon, word and colour. */
export function StatusWord({ status }: { status: Status }) {
  if (status.class === "none") return <span className="quiet">{status.word === "" ? "–" : status.word}</span>;
  return (
    <span className={`status status-${status.class}`}>
      <StatusIcon status={status.class} />
      <span>{status.word}</span>
    </span>
  );
}

/** The state of a cluster: icon, word and colour. */
export function StateWord({ cluster }: { cluster: Pick<Cluster, "state"> }) {
  return (
    <span className="state">
      <StatusWord status={{ class: stateClass(cluster.state), word: stateWord(cluster.state) }} />
    </span>
  );
}

/** How long ago a time was; its title is the whole time. */
export function Age({ time, suffix = "" }: { time: string | null | undefined; suffix?: string }) {
  const now = useNow();
  if (!time) return <span className="quiet">–</span>;
  const text = age(time, now);
  return (
    <time dateTime={time} title={full(time)}>
      {text}
      {text === "–" ? "" : suffix}
    </time>
  );
}

/** A number; zero is quiet. */
export function Count({ value }: { value: number }) {
  return <span className={value === 0 ? "number quiet" : "number"}>{grouped(value)}</span>;
}

/** What is wrong in words, or that nothing is. */
export function Problems({ problems }: { problems: Record<string, number> }) {
  const text = troubles(problems);
  if (text === "") return <span className="quiet">none</span>;
  return (
    <span className="status status-warning" title={text}>
      <StatusIcon status="warning" />
      <span>{text}</span>
    </span>
  );
}

/** A kind as a small label. */
export function KindLabel({ kind }: { kind: string }) {
  return <span className="kind">{kind}</span>;
}

/** Changes per minute as thirty bars, the newest to the right. */
export function Sparkline({ values }: { values: readonly number[] }) {
  const top = Math.max(1, ...values);
  const total = values.reduce((left, right) => left + right, 0);
  const text = `${grouped(total)} changes in the last ${values.length} min`;
  return (
    <svg className="sparkline" viewBox={`0 0 ${values.length * 4} 20`} preserveAspectRatio="xMinYMax meet" role="img" aria-label={text}>
      <title>{text}</title>
      {values.map((value, minute) => {
        const height = value === 0 ? 1 : 2 + (value / top) * 18;
        // The minute is the identity of a bar.
        return <rect key={minute} className={value === 0 ? "none" : "some"} x={minute * 4} width={3} y={20 - height} height={height} />;
      })}
    </svg>
  );
}

/** A command to run, with a button that copies it. */
export function Command({ text }: { text: string }) {
  const [copied, setCopied] = useState(false);
  useEffect(() => {
    if (!copied) return;
    const timer = setTimeout(() => setCopied(false), COPIED);
    return () => clearTimeout(timer);
  }, [copied]);
  return (
    <div className="command">
      <code>{text}</code>
      <Button
        className="icon-button"
        aria-label={copied ? "Copied" : "Copy the command"}
        onPress={() => {
          void navigator.clipboard.writeText(text).then(() => setCopied(true));
        }}
      >
        <Icon name={copied ? "check" : "copy"} />
      </Button>
    </div>
  );
}

/** Facts as pairs of name and value. */
export function Facts({ children }: { children: ReactNode }) {
  return <dl className="facts">{children}</dl>;
}

export function Fact({ name, mono = false, children }: { name: string; mono?: boolean; children: ReactNode }) {
  return (
    <div className="fact">
      <dt>{name}</dt>
      <dd className={mono ? "mono" : undefined}>{children}</dd>
    </div>
  );
}

/** A part of a page with a heading of its own. */
export function Section({ title, note, action, children }: { title: string; note?: ReactNode; action?: ReactNode; children: ReactNode }) {
  return (
    <section className="section">
      <header>
        <h2>{title}</h2>
        {note !== undefined && <span className="note">{note}</span>}
        {action !== undefined && <span className="action">{action}</span>}
      </header>
      {children}
    </section>
  );
}
