// What the hub has of an object, ordered for people. It reads any projection: known parts get a form of their own, the rest a general one.
import type { ReactNode } from "react";
import type { ObjectDetail, RelatedGroup } from "../../api/types";
import { conditionClass } from "../../model/conditions";
import { label, memory } from "../../model/facts";
import { objectHref } from "../../model/urls";
import { Link } from "../../router";
import { Age, Fact, Facts, Section, StatusWord } from "../../ui/atoms";
import { Empty } from "../../ui/states";

type Fields = Record<string, unknown>;

/** Fields that the header of the page shows. */
const IN_HEADER = new Set(["uid", "name", "namespace", "k8s_created_at", "node_name", "image", "is_cluster"]);
/** Fields with a part of their own. */
const IN_PARTS = new Set([
  "labels",
  "annotations",
  "containers",
  "init_containers",
  "volumes",
  "conditions",
  "selector",
  "node_selector",
  "pod_selector",
  "data_keys",
  "binary_keys",
]);

/** A list of more values than this has a part of its own. */
const FEW = 6;

export function isFields(value: unknown): value is Fields {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function list(value: unknown): unknown[] {
  return Array.isArray(value) ? value : [];
}

/** The images that an object uses, each once. */
export function images(object: Fields): string[] {
  const containers = [...list(object.containers), ...list(object.init_containers)].filter(isFields);
  const found = containers.map((container) => container.image);
  return [...new Set([object.image, ...found].filter((image): image is string => typeof image === "string" && image !== ""))];
}

export function Overview({ object, groups }: { object: ObjectDetail; groups: readonly RelatedGroup[] }) {
  const fields = object.object;
  const rest = Object.entries(fields).filter(([key]) => !IN_HEADER.has(key) && !IN_PARTS.has(key));
  const facts = rest.filter(([, value]) => isFact(value));
  const lists = rest.filter(([, value]) => Array.isArray(value) && value.length > 0 && !isFact(value));
  const maps = rest.filter(([, value]) => isFields(value) && !isFact(value));
  const containers = list(fields.containers).filter(isFields);
  const inits = list(fields.init_containers).filter(isFields);
  const volumes = list(fields.volumes).filter(isFields);
  const isBare = rest.length === 0 && Object.keys(fields).every((key) => IN_HEADER.has(key));
  return (
    <div className="overview">
      <Message object={object} />
      <Conditions value={fields.conditions} phase={fields.phase} />
      {facts.length > 0 && (
        <Section title="Facts">
          <Facts>
            {facts.map(([key, value]) => (
              <Fact key={key} name={label(key)} mono={isMonoField(key)}>
                <FactValue field={key} value={value} />
              </Fact>
            ))}
          </Facts>
        </Section>
      )}
      {containers.length > 0 && <Containers title="Containers" containers={containers} />}
      {inits.length > 0 && <Containers title="Init containers" containers={inits} />}
      {volumes.length > 0 && <Volumes volumes={volumes} groups={groups} />}
      <Keys kind={object.kind} fields={fields} />
      {maps.map(([key, value]) => (
        <Section key={key} title={label(key)}>
          <General value={value} />
        </Section>
      ))}
      {lists.map(([key, value]) => (
        <Section key={key} title={label(key)} note={String(list(value).length)}>
          <General value={value} />
        </Section>
      ))}
      <Pairs title="Selector" value={fields.selector} />
      <Pairs title="Pod selector" value={fields.pod_selector} />
      <Pairs title="Node selector" value={fields.node_selector} />
      <Pairs title="Labels" value={fields.labels} />
      <Pairs title="Annotations" note="those that carry whole manifests never leave the cluster" value={fields.annotations} />
      {isBare && <Empty title="This object has nothing more to show." />}
    </div>
  );
}

/** What the hub says is wrong, in full. */
function Message({ object }: { object: ObjectDetail }) {
  const { reason, message } = object.facts;
  if (!message || object.kind === "Event") return null;
  return (
    <p className="message">
      {reason && <strong>{reason}: </strong>}
      {message}
    </p>
  );
}

function Conditions({ value, phase }: { value: unknown; phase: unknown }) {
  const conditions = list(value).filter(isFields);
  if (conditions.length === 0) return null;
  return (
    <Section title="Conditions">
      <ul className="conditions">
        {conditions.map((condition) => {
          const [type, status] = [String(condition.type), String(condition.status)];
          return (
            <li key={type}>
              <StatusWord status={{ class: conditionClass(type, status, phase), word: type }} />
              {status !== "True" && <span className="quiet"> {status}</span>}
            </li>
          );
        })}
      </ul>
    </Section>
  );
}

function Containers({ title, containers }: { title: string; containers: Fields[] }) {
  return (
    <Section title={title} note={String(containers.length)}>
      <div className="cards">
        {containers.map((container) => (
          <article key={String(container.name)} className="card">
            <header>
              <h3 className="mono">{String(container.name)}</h3>
              <ContainerState container={container} />
            </header>
            <Facts>
              <Fact name="Image" mono>
                {String(container.image ?? "–")}
              </Fact>
              <Fact name="Restarts">{String(container.restart_count ?? 0)}</Fact>
              <Amounts resources={container.resources} />
              <Joined name="Ports" items={list(container.ports).filter(isFields).map(portText)} />
              <Joined
                name="Mounts"
                items={list(container.volume_mounts)
                  .filter(isFields)
                  .map((mount) => `${mount.mount_path} (${mount.name}${mount.read_only === true ? ", read-only" : ""})`)}
              />
              <Joined name="Environment (names only)" items={list(container.env_var_names).map(String)} />
              <Joined name="Security" items={securityWords(container.security_context)} />
            </Facts>
          </article>
        ))}
      </div>
    </Section>
  );
}

function ContainerState({ container }: { container: Fields }) {
  const state = typeof container.state === "string" ? container.state : "";
  const word = state.charAt(0).toUpperCase() + state.slice(1);
  if (container.ready === true) return <StatusWord status={{ class: "ok", word: word || "Ready" }} />;
  if (state === "terminated") return <StatusWord status={{ class: "none", word }} />;
  const isFailing = state === "waiting" && Number(container.restart_count ?? 0) > 0;
  return <StatusWord status={{ class: isFailing ? "error" : "warning", word: word ? `${word}, not ready` : "Not ready" }} />;
}

function Amounts({ resources }: { resources: unknown }) {
  if (!isFields(resources)) return null;
  const text = (name: "cpu" | "memory") => {
    const request = resources[`${name}_request`];
    const limit = resources[`${name}_limit`];
    if (request === undefined && limit === undefined) return null;
    return `${request ?? "–"} / ${limit ?? "no limit"}`;
  };
  const [cpu, memory] = [text("cpu"), text("memory")];
  if (cpu === null && memory === null) return <Fact name="Requests and limits">none</Fact>;
  return (
    <>
      {cpu !== null && <Fact name="CPU request / limit">{cpu}</Fact>}
      {memory !== null && <Fact name="Memory request / limit">{memory}</Fact>}
    </>
  );
}

function Joined({ name, items }: { name: string; items: string[] }) {
  if (items.length === 0) return null;
  return (
    <Fact name={name} mono>
      <ul className="joined">
        {items.map((item) => (
          <li key={item}>{item}</li>
        ))}
      </ul>
    </Fact>
  );
}

function portText(port: Fields): string {
  const number = port.container_port ?? port.port;
  const protocol = port.protocol === undefined || port.protocol === "TCP" ? "" : `/${port.protocol}`;
  return `${port.name ? `${port.name} ` : ""}${number}${protocol}`;
}

function securityWords(context: unknown): string[] {
  if (!isFields(context)) return [];
  const words: string[] = [];
  if (context.privileged === true) words.push("privileged");
  if (context.run_as_root === true) words.push("runs as root");
  for (const capability of list(context.capabilities)) words.push(`+${capability}`);
  return words;
}

const VOLUME_KINDS = new Map([
  ["configMap", "ConfigMap"],
  ["secret", "Secret"],
  ["pvc", "PersistentVolumeClaim"],
]);

function Volumes({ volumes, groups }: { volumes: Fields[]; groups: readonly RelatedGroup[] }) {
  const related = groups.flatMap((group) => group.items);
  return (
    <Section title="Volumes" note={String(volumes.length)}>
      <Table
        columns={["Name", "Type", "Source"]}
        rows={volumes.map((volume) => {
          const kind = VOLUME_KINDS.get(String(volume.type));
          const source = related.find((item) => item.kind === kind && item.name === volume.source);
          const text = volume.source === undefined ? "–" : String(volume.source);
          return [String(volume.name), String(volume.type), source ? <Link href={objectHref(source)}>{text}</Link> : text];
        })}
      />
    </Section>
  );
}

function Keys({ kind, fields }: { kind: string; fields: Fields }) {
  if (kind !== "Secret" && kind !== "ConfigMap") return null;
  const keys = [...list(fields.data_keys), ...list(fields.binary_keys)].map(String);
  return (
    <Section title="Keys" note="names only: values never leave the cluster">
      {keys.length === 0 ? (
        <p className="quiet">It has no keys.</p>
      ) : (
        <ul className="pairs">
          {keys.map((key) => (
            <li key={key} className="mono">
              {key}
            </li>
          ))}
        </ul>
      )}
    </Section>
  );
}

function Pairs({ title, note, value }: { title: string; note?: string; value: unknown }) {
  if (!isFields(value) || Object.keys(value).length === 0) return null;
  return (
    <Section title={title} {...(note === undefined ? {} : { note })}>
      <PairList fields={value} />
    </Section>
  );
}

function PairList({ fields }: { fields: Fields }) {
  return (
    <ul className="pairs">
      {Object.entries(fields).map(([key, value]) => (
        <li key={key} className="mono">
          <span className="pair-key">{key}</span>
          <span className="pair-value">{isScalar(value) ? String(value) : JSON.stringify(value)}</span>
        </li>
      ))}
    </ul>
  );
}

/** A value of any shape: lists of objects become tables, maps become pairs. */
function General({ value }: { value: unknown }) {
  if (isFields(value)) return <PairList fields={value} />;
  const items = list(value);
  if (items.every(isScalar)) {
    return (
      <ul className="pairs">
        {items.map((item) => (
          <li key={String(item)} className="mono">
            {String(item)}
          </li>
        ))}
      </ul>
    );
  }
  const rows = items.filter(isFields);
  const columns = [...new Set(rows.flatMap((row) => Object.keys(row)))];
  return <Table columns={columns.map(label)} rows={rows.map((row) => columns.map((column) => flat(row[column])))} />;
}

function flat(value: unknown): string {
  if (value === undefined || value === null) return "–";
  if (isScalar(value)) return String(value);
  if (Array.isArray(value)) return value.map(flat).join("; ");
  return Object.entries(value as Fields)
    .map(([key, inner]) => `${label(key).toLowerCase()} ${flat(inner)}`)
    .join(", ");
}

function Table({ columns, rows }: { columns: string[]; rows: ReactNode[][] }) {
  return (
    <div className="table-box">
      <table className="table">
        <thead>
          <tr>
            {columns.map((column) => (
              <th key={column} scope="col">
                {column}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row, index) => (
            // A projection has no better identity for its parts than their order.
            <tr key={index}>
              {row.map((cell, place) => (
                <td key={columns[place]} className="mono">
                  {cell}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function FactValue({ field, value }: { field: string; value: unknown }) {
  if (Array.isArray(value)) return value.join(", ");
  if (isFields(value)) return `${value.kind} ${value.name}`;
  if (field.startsWith("memory") && typeof value === "string") return memory(value);
  if (value === null || value === "") return "–";
  if (typeof value === "boolean") return value ? "yes" : "no";
  if (/(_at|_time|_timestamp)$/.test(field) && typeof value === "string") return <Age time={value} suffix=" ago" />;
  return String(value);
}

/** Whether a value fits beside others: one value, a few values, or the name of an object. */
function isFact(value: unknown): boolean {
  if (Array.isArray(value)) return value.length > 0 && value.length <= FEW && value.every(isScalar);
  if (isFields(value)) return Object.keys(value).length === 2 && typeof value.kind === "string" && typeof value.name === "string";
  return isScalar(value);
}

function isScalar(value: unknown): boolean {
  return value === null || ["string", "number", "boolean"].includes(typeof value);
}

function isMonoField(field: string): boolean {
  return /ip$|ips$|_name$|_ref$|account|version|image|runtime|resources|schedule|volume|class/.test(field);
}
