// Filters that a person keeps, and those that everybody has.
import { Button } from "react-aria-components/Button";
import { Header, Menu, MenuItem, MenuSection, MenuTrigger, Popover } from "react-aria-components/Menu";
import type { Cluster } from "../../api/types";
import { type Filters, writeFilters } from "../../model/urls";
import { COMMON_VIEWS, readViews, toggleView, type View, viewName } from "../../model/views";
import { Icon } from "../../ui/icons";
import { keep, useKept } from "../../ui/preferences";

const STORE = "views";
const KEEP = "keep";

export function Views({ filters, clusters }: { filters: Filters; clusters: readonly Cluster[] }) {
  const views = readViews(useKept(STORE));
  const search = writeFilters(filters);
  const isKept = views.some((view) => view.search === search);
  const isCommon = COMMON_VIEWS.some((view) => view.search === search);
  const clusterName = filters.cluster === null ? null : (clusters.find((cluster) => cluster.id === filters.cluster)?.name ?? filters.cluster);
  return (
    <MenuTrigger>
      <Button className="button button-quiet" aria-label="Views">
        <Icon name="bookmark" />
        Views
      </Button>
      <Popover className="popover" placement="bottom end" offset={4}>
        <Menu
          className="menu"
          aria-label="Views"
          onAction={(id) => {
            if (id === KEEP) keep(STORE, JSON.stringify(toggleView(views, { name: viewName(filters, clusterName), search })));
          }}
        >
          <ViewSection title="Everybody's" views={COMMON_VIEWS} search={search} />
          {views.length > 0 && <ViewSection title="Kept in this browser" views={views} search={search} />}
          {search !== "" && !isCommon && (
            <MenuItem id={KEEP} className="menu-item menu-last" textValue={isKept ? "Forget this view" : "Keep these filters"}>
              <span className="menu-check">
                <Icon name={isKept ? "close" : "plus"} />
              </span>
              <span className="menu-text">{isKept ? "Forget this view" : "Keep these filters"}</span>
            </MenuItem>
          )}
        </Menu>
      </Popover>
    </MenuTrigger>
  );
}

function ViewSection({ title, views, search }: { title: string; views: readonly View[]; search: string }) {
  return (
    <MenuSection aria-label={title}>
      <Header className="menu-header">{title}</Header>
      {views.map((view) => (
        <MenuItem key={view.search} id={view.search} href={`/resources${view.search}`} className="menu-item" textValue={view.name}>
          <span className="menu-check">{view.search === search && <Icon name="check" />}</span>
          <span className="menu-text">{view.name}</span>
        </MenuItem>
      ))}
    </MenuSection>
  );
}
