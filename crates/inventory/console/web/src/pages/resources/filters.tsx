// The filters of the list: chips that show what is chosen, and the numbers by status.
import { useQueries, useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { Button } from "react-aria-components/Button";
import { Menu, MenuItem, MenuSection, MenuTrigger, Popover } from "react-aria-components/Menu";
import { Input, SearchField } from "react-aria-components/SearchField";
import { queries } from "../../api/queries";
import type { Cluster, ObjectSummary, StatusClass } from "../../api/types";
import { KINDS, grouped, plural } from "../../model/kinds";
import { STATUS_CLASSES, classWord, stateWord } from "../../model/status";
import type { Filters } from "../../model/urls";
import type { Column } from "../../ui/grid";
import { Icon, StatusIcon } from "../../ui/icons";
import { type Choice, Pick } from "../../ui/pick";

interface FilterBarProps {
  filters: Filters;
  clusters: readonly Cluster[];
  text: string;
  onText(text: string): void;
  onChange(part: Partial<Filters>): void;
}

export function FilterBar({ filters, clusters, text, onText, onChange }: FilterBarProps) {
  const inScope = filters.cluster === null ? clusters : clusters.filter((cluster) => cluster.id === filters.cluster);
  const [isOpen, setOpen] = useState(false);
  const namespaces = useNamespaces(filters.cluster, isOpen);
  return (
    <div className="filters">
      <SearchField className="field" aria-label="Filter by name" value={text} onChange={onText}>
        <Icon name="filter" />
        <Input placeholder="Name contains" spellCheck={false} />
      </SearchField>
      <Chip
        name="Kind"
        value={filters.kind}
        choices={kindChoices(inScope)}
        onPick={(kind) => onChange({ kind, columns: null })}
        onClear={() => onChange({ kind: null, columns: null })}
      />
      <Chip
        name="Cluster"
        value={filters.cluster}
        text={clusters.find((cluster) => cluster.id === filters.cluster)?.name}
        choices={clusters.map((cluster) => ({ id: cluster.id, text: cluster.name, note: stateWord(cluster.state), mono: true }))}
        onPick={(cluster) => onChange({ cluster })}
        onClear={() => onChange({ cluster: null })}
      />
      <Chip
        name="Namespace"
        value={filters.namespace}
        choices={namespaces}
        onOpen={() => setOpen(true)}
        onPick={(namespace) => onChange({ namespace })}
        onClear={() => onChange({ namespace: null })}
      />
    </div>
  );
}

function kindChoices(clusters: readonly Cluster[]): Choice[] {
  const counts = new Map<string, number>(KINDS.map((kind) => [kind, 0]));
  for (const cluster of clusters) {
    for (const [kind, count] of Object.entries(cluster.counts)) counts.set(kind, (counts.get(kind) ?? 0) + count);
  }
  return [...counts].map(([kind, count]) => ({ id: kind, text: plural(kind), note: grouped(count) }));
}

/** The namespaces of a cluster, or of all clusters by the names of objects of that kind. */
function useNamespaces(cluster: string | null, enabled: boolean): Choice[] {
  const one = useQuery({ ...queries.namespaces(cluster ?? ""), enabled: enabled && cluster !== null });
  const all = useQuery({ ...queries.objects({ kind: "Namespace", sort: "name", order: "asc" }, 500), enabled: enabled && cluster === null });
  if (cluster !== null) {
    return (one.data?.items ?? []).map(({ name, objects }) => ({ id: name, text: name, note: grouped(objects), mono: true }));
  }
  const names = new Set((all.data?.items ?? []).map((namespace) => namespace.name));
  return [...names].map((name) => ({ id: name, text: name, mono: true }));
}

interface ChipProps {
  name: string;
  value: string | null;
  text?: string | undefined;
  choices: readonly Choice[];
  onPick(id: string): void;
  onClear(): void;
  onOpen?(): void;
}

function Chip({ name, value, text, choices, onPick, onClear, onOpen }: ChipProps) {
  return (
    <span className={value === null ? "chip" : "chip chip-set"}>
      <Pick
        label={value === null ? `Filter by ${name.toLowerCase()}` : `${name}: ${text ?? value}. Change`}
        className="chip-button"
        choices={choices}
        selected={value}
        onPick={onPick}
        emptyText="Loading"
        {...(onOpen === undefined ? {} : { onOpen })}
      >
        {value === null ? (
          <>
            {name} <Icon name="down" />
          </>
        ) : (
          <>
            <span className="chip-name">{name}</span> <span className={name === "Kind" ? undefined : "mono"}>{text ?? value}</span>
          </>
        )}
      </Pick>
      {value !== null && (
        <Button className="chip-clear" aria-label={`Remove the filter ${name} ${text ?? value}`} onPress={onClear}>
          <Icon name="close" />
        </Button>
      )}
    </span>
  );
}

/** How many objects of each class of status match the other filters; a class is a filter. */
export function StatusBar({ filters, onChange }: { filters: Filters; onChange(part: Partial<Filters>): void }) {
  const { cluster, kind, namespace, q } = filters;
  const classes: (StatusClass | null)[] = [null, ...STATUS_CLASSES];
  const counts = useQueries({
    queries: classes.map((status) => queries.objects({ cluster, kind, namespace, q, status }, 1)),
  });
  return (
    <div className="status-bar" role="group" aria-label="Filter by status">
      {classes.map((status, index) => {
        const total = counts[index]?.data?.total;
        const isChosen = filters.status === status;
        if (status !== null && total === 0 && !isChosen) return null;
        return (
          <button
            key={status ?? "all"}
            type="button"
            className={`status-filter${status === null ? "" : ` status-${status}`}`}
            aria-pressed={isChosen}
            onClick={() => onChange({ status: isChosen ? null : status })}
          >
            {status !== null && <StatusIcon status={status} />}
            <span>{status === null ? "All" : classWord(status)}</span>
            <span className="number">{total === undefined ? "…" : grouped(total)}</span>
          </button>
        );
      })}
    </div>
  );
}

interface ColumnChoiceProps {
  columns: readonly Column<ObjectSummary>[];
  chosen: ReadonlySet<string>;
  isDefault: boolean;
  /** The chosen columns in their order, or null for those that fit the kind. */
  onChange(columns: string[] | null): void;
}

export function ColumnChoice({ columns, chosen, isDefault, onChange }: ColumnChoiceProps) {
  return (
    <MenuTrigger>
      <Button className="button button-quiet wide-only" aria-label="Choose columns">
        <Icon name="columns" />
        Columns
      </Button>
      <Popover className="popover" placement="bottom end" offset={4}>
        <Menu
          className="menu"
          aria-label="Columns"
          onAction={(id) => {
            if (id === "default") onChange(null);
          }}
        >
          <MenuSection
            selectionMode="multiple"
            aria-label="Columns to show"
            selectedKeys={chosen}
            disallowEmptySelection
            onSelectionChange={(keys) => {
              const next = new Set([...keys].map(String));
              onChange(columns.map((column) => column.id).filter((id) => next.has(id)));
            }}
          >
            {columns
              .filter((column) => column.id !== "name")
              .map((column) => (
                <MenuItem key={column.id} id={column.id} className="menu-item" textValue={column.title}>
                  <span className="menu-check">{chosen.has(column.id) && <Icon name="check" />}</span>
                  <span className="menu-text">{column.title}</span>
                </MenuItem>
              ))}
          </MenuSection>
          {!isDefault && (
            <MenuItem id="default" className="menu-item menu-last" textValue="Back to the usual columns">
              <span className="menu-check" />
              <span className="menu-text">Back to the usual columns</span>
            </MenuItem>
          )}
        </Menu>
      </Popover>
    </MenuTrigger>
  );
}
