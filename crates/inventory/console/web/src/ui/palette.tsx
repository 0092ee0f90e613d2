// The search that is everywhere: "/" or Ctrl-K opens it, and results come as one types.
import { useQuery } from "@tanstack/react-query";
import { createContext, type ReactNode, useContext, useEffect, useState } from "react";
import { Autocomplete } from "react-aria-components/Autocomplete";
import { Dialog } from "react-aria-components/Dialog";
import { Header, ListBox, ListBoxItem, ListBoxSection } from "react-aria-components/ListBox";
import { Modal, ModalOverlay } from "react-aria-components/Modal";
import { Input, SearchField } from "react-aria-components/SearchField";
import { queries } from "../api/queries";
import type { Cluster, ObjectSummary } from "../api/types";
import { grouped } from "../model/kinds";
import { stateClass } from "../model/status";
import { clusterHref, objectHref, searchHref } from "../model/urls";
import { navigate } from "../router";
import { useDebounced } from "./debounce";
import { Icon, type IconName, StatusIcon } from "./icons";

/** How many objects the palette names; the search page has the others. */
const OBJECTS = 12;
/** How many clusters it names. */
const CLUSTERS = 5;

const PaletteContext = createContext<() => void>(() => {});

/** A function that opens the palette. */
export function usePalette(): () => void {
  return useContext(PaletteContext);
}

export function PaletteProvider({ children }: { children: ReactNode }) {
  const [isOpen, setOpen] = useState(false);
  useEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      const target = event.target as HTMLElement;
      const isTyping = target.isContentEditable || ["INPUT", "TEXTAREA", "SELECT"].includes(target.tagName);
      const isSlash = event.key === "/" && !isTyping && !event.ctrlKey && !event.metaKey;
      const isCtrlK = event.key.toLowerCase() === "k" && (event.ctrlKey || event.metaKey);
      if (!isSlash && !isCtrlK) return;
      event.preventDefault();
      setOpen(true);
    };
    addEventListener("keydown", onKey);
    return () => removeEventListener("keydown", onKey);
  }, []);
  return (
    <PaletteContext value={() => setOpen(true)}>
      {children}
      <ModalOverlay className="overlay palette-overlay" isOpen={isOpen} onOpenChange={setOpen} isDismissable>
        <Modal className="palette">
          <Dialog aria-label="Search the fleet">
            <Palette onClose={() => setOpen(false)} />
          </Dialog>
        </Modal>
      </ModalOverlay>
    </PaletteContext>
  );
}

const PAGES: { href: string; text: string; icon: IconName }[] = [
  { href: "/", text: "Fleet", icon: "fleet" },
  { href: "/resources", text: "Resources", icon: "resources" },
  { href: "/resources?status=error", text: "Everything that fails", icon: "filter" },
  { href: "/resources?sort=-changed", text: "Latest changes", icon: "clock" },
  { href: "/settings", text: "Settings", icon: "settings" },
];

function Palette({ onClose }: { onClose: () => void }) {
  const [text, setText] = useState("");
  const typed = text.trim();
  const q = useDebounced(typed, 120);
  const { data: clusters } = useQuery(queries.clusters());
  const found = useQuery({ ...queries.objects({ q, sort: "name", order: "asc" }, OBJECTS), enabled: q !== "" });
  const matches = (candidate: string) => candidate.toLowerCase().includes(typed.toLowerCase());

  const shownClusters = (clusters?.items ?? []).filter((cluster) => matches(cluster.name)).slice(0, CLUSTERS);
  const pages = PAGES.filter((page) => matches(page.text));
  // Enter opens the first item, so the objects of an earlier text are not among them.
  const isSearching = typed !== "" && (typed !== q || found.isPlaceholderData || found.isPending);
  const answer = typed === "" || isSearching ? undefined : found.data;
  const objects = answer?.items ?? [];
  const more = answer !== undefined && answer.total > objects.length ? answer.total : 0;
  const go = (href: string) => {
    onClose();
    navigate(href);
  };

  return (
    <Autocomplete inputValue={text} onInputChange={setText}>
      <SearchField className="palette-field" aria-label="Search by name" autoFocus>
        <Icon name="search" />
        <Input placeholder="Search by name, or go to a page" />
        <kbd>Esc</kbd>
      </SearchField>
      <ListBox
        className="palette-list"
        aria-label="Results"
        selectionMode="none"
        onAction={(id) => go(String(id))}
        renderEmptyState={() => (
          <p className="menu-empty">
            {isSearching ? "Searching" : found.error !== null ? `Could not search: ${found.error.message}.` : `No name contains “${typed}”.`}
          </p>
        )}
      >
        {objects.length > 0 && (
          <ListBoxSection id="objects">
            <Header>Objects</Header>
            {objects.map((object) => (
              <ObjectItem key={object.cluster + object.uid} object={object} />
            ))}
          </ListBoxSection>
        )}
        {more > 0 && (
          <ListBoxSection id="more">
            <Header>More</Header>
            <ListBoxItem id={searchHref(q)} className="palette-item" textValue={`All ${more} objects`}>
              <Icon name="enter" />
              <span>All {grouped(more)} objects with this name</span>
            </ListBoxItem>
          </ListBoxSection>
        )}
        {shownClusters.length > 0 && (
          <ListBoxSection id="clusters">
            <Header>Clusters</Header>
            {shownClusters.map((cluster) => (
              <ClusterItem key={cluster.id} cluster={cluster} />
            ))}
          </ListBoxSection>
        )}
        {pages.length > 0 && (
          <ListBoxSection id="pages">
            <Header>Pages</Header>
            {pages.map((page) => (
              <ListBoxItem key={page.href} id={page.href} className="palette-item" textValue={page.text}>
                <Icon name={page.icon} />
                <span>{page.text}</span>
              </ListBoxItem>
            ))}
          </ListBoxSection>
        )}
      </ListBox>
    </Autocomplete>
  );
}

function ObjectItem({ object }: { object: ObjectSummary }) {
  return (
    <ListBoxItem id={objectHref(object)} className="palette-item" textValue={object.name}>
      <StatusIcon status={object.status.class} />
      <span className="mono palette-name">{object.name}</span>
      <span className="palette-note">
        {object.kind} · {object.namespace === null ? "" : `${object.namespace} · `}
        {object.cluster_name}
        {object.stale ? " · stale" : ""}
      </span>
    </ListBoxItem>
  );
}

function ClusterItem({ cluster }: { cluster: Cluster }) {
  return (
    <ListBoxItem id={clusterHref(cluster.id)} className="palette-item" textValue={cluster.name}>
      <StatusIcon status={stateClass(cluster.state)} />
      <span className="mono palette-name">{cluster.name}</span>
      <span className="palette-note">{grouped(cluster.objects)} objects</span>
    </ListBoxItem>
  );
}
