// What every page has around it: the rail, the bar at the top, and the place of the page.
import type { ReactNode } from "react";
import { Button } from "react-aria-components/Button";
import type { Route } from "../model/urls";
import { Link } from "../router";
import { Crumbs } from "./crumbs";
import { Icon, type IconName } from "./icons";
import { LiveSign } from "./live";
import { usePalette } from "./palette";

const RAIL: { href: string; text: string; icon: IconName; pages: Route["page"][] }[] = [
  { href: "/", text: "Fleet", icon: "fleet", pages: ["fleet", "cluster", "namespace"] },
  { href: "/resources", text: "Resources", icon: "resources", pages: ["resources", "object"] },
  { href: "/search", text: "Search", icon: "search", pages: ["search"] },
  { href: "/settings", text: "Settings", icon: "settings", pages: ["settings"] },
];

export function Shell({ route, children }: { route: Route; children: ReactNode }) {
  const openPalette = usePalette();
  return (
    <div className="shell">
      <a
        className="skip"
        href="#main"
        onClick={(event) => {
          event.preventDefault();
          document.querySelector<HTMLElement>("h1")?.focus();
        }}
      >
        Skip to the page
      </a>
      <nav className="rail" aria-label="Main">
        <Link href="/" className="brand" aria-label="Trustplane">
          <img src="/icon.svg" alt="" width="24" height="24" />
        </Link>
        {RAIL.map((entry) => (
          <Link key={entry.href} href={entry.href} className="rail-link" aria-current={entry.pages.includes(route.page) ? "true" : undefined}>
            <Icon name={entry.icon} />
            <span>{entry.text}</span>
          </Link>
        ))}
      </nav>
      <header className="top">
        <Crumbs route={route} />
        <LiveSign />
        <Button className="search-button" aria-label="Search by name" onPress={openPalette}>
          <Icon name="search" />
          <span>Search by name</span>
        </Button>
      </header>
      <main id="main">{children}</main>
    </div>
  );
}
