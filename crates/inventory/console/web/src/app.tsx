// The console: what is around the pages, and which page an address opens.
import { QueryClientProvider } from "@tanstack/react-query";
import { useState } from "react";
import { I18nProvider } from "react-aria-components/I18nProvider";
import { RouterProvider } from "react-aria-components";
import { createQueryClient } from "./api/queries";
import { useSignedOut } from "./api/session";
import { type Route, readRoute } from "./model/urls";
import { ClusterPage } from "./pages/cluster";
import { FleetPage } from "./pages/fleet";
import { NamespacePage } from "./pages/namespace";
import { ObjectPage } from "./pages/object";
import { ResourcesPage } from "./pages/resources";
import { SearchPage } from "./pages/search";
import { SettingsPage } from "./pages/settings";
import { UnknownPage } from "./pages/unknown";
import { navigate, PlaceContext, usePlaceSource } from "./router";
import { ErrorBoundary } from "./ui/boundary";
import { LiveProvider } from "./ui/live";
import { PaletteProvider } from "./ui/palette";
import { Shell } from "./ui/shell";
import { SignedOut } from "./ui/states";

export function App() {
  const [client] = useState(createQueryClient);
  const place = usePlaceSource();
  const isSignedOut = useSignedOut();
  if (isSignedOut) return <SignedOut />;
  const route = readRoute(place.path);
  return (
    <ErrorBoundary place={place}>
      <I18nProvider locale="en-US">
        <QueryClientProvider client={client}>
          <RouterProvider navigate={(to) => navigate(to)}>
            <PlaceContext value={place}>
              <LiveProvider>
                <PaletteProvider>
                  <Shell route={route}>
                    <ErrorBoundary place={place}>
                      <PageOf route={route} />
                    </ErrorBoundary>
                  </Shell>
                </PaletteProvider>
              </LiveProvider>
            </PlaceContext>
          </RouterProvider>
        </QueryClientProvider>
      </I18nProvider>
    </ErrorBoundary>
  );
}

/** The page of a route. The key resets the state of a page when the route names another cluster, namespace or object. */
function PageOf({ route }: { route: Route }) {
  switch (route.page) {
    case "fleet":
      return <FleetPage />;
    case "cluster":
      return <ClusterPage key={route.cluster} id={route.cluster} />;
    case "namespace":
      return <NamespacePage key={`${route.cluster}/${route.namespace}`} cluster={route.cluster} name={route.namespace} />;
    case "object":
      return <ObjectPage key={`${route.cluster}/${route.uid}`} cluster={route.cluster} uid={route.uid} />;
    case "resources":
      return <ResourcesPage />;
    case "search":
      return <SearchPage />;
    case "settings":
      return <SettingsPage />;
    case "unknown":
      return <UnknownPage />;
  }
}
