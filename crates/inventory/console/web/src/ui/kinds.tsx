// Numbers of objects by kind, each a way to its list.
import { grouped, plural, troubleWord } from "../model/kinds";
import { Link } from "../router";
import { StatusIcon } from "./icons";

interface KindsProps {
  kinds: readonly string[];
  count(kind: string): number;
  problems(kind: string): number;
  href(kind: string): string;
}

/** Kinds as tiles, for a whole cluster. */
export function KindTiles({ kinds, count, problems, href }: KindsProps) {
  return (
    <ul className="tiles">
      {kinds.map((kind) => {
        const total = count(kind);
        const failing = problems(kind);
        return (
          <li key={kind} className={total === 0 ? "tile tile-none" : "tile"}>
            <Link className="tile-link" href={href(kind)}>
              <span className="tile-line">
                <span className="tile-count">{grouped(total)}</span>
                <span className="tile-kind">{plural(kind)}</span>
              </span>
              {failing > 0 && (
                <span className="tile-problem status status-warning">
                  <StatusIcon status="warning" />
                  <span>
                    {grouped(failing)} {troubleWord(kind)}
                  </span>
                </span>
              )}
            </Link>
          </li>
        );
      })}
    </ul>
  );
}

/** Kinds as lines below a title, for a namespace. */
export function KindGroup({ title, kinds, count, problems, href }: KindsProps & { title: string }) {
  return (
    <section className="kind-group">
      <h2>{title}</h2>
      <ul>
        {kinds.map((kind) => {
          const total = count(kind);
          const failing = problems(kind);
          return (
            <li key={kind}>
              <Link className={total === 0 ? "kind-line kind-line-none" : "kind-line"} href={href(kind)}>
                <span>{kind === "PersistentVolumeClaim" ? "Volume claims" : plural(kind)}</span>
                {failing > 0 && (
                  <span className="status status-warning">
                    <StatusIcon status="warning" />
                    <span>
                      {grouped(failing)} <span className="wide-only">{troubleWord(kind)}</span>
                    </span>
                  </span>
                )}
                <span className="number">{grouped(total)}</span>
              </Link>
            </li>
          );
        })}
      </ul>
    </section>
  );
}
