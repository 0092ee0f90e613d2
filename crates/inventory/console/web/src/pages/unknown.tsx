// An address that leads nowhere.
import { Heading, ScrollArea, useTitle } from "../ui/page";
import { NotFound } from "../ui/states";

export function UnknownPage() {
  useTitle("Not found");
  return (
    <ScrollArea className="page">
      <header className="page-head">
        <Heading>Not found</Heading>
      </header>
      <NotFound title="There is no page at this address." />
    </ScrollArea>
  );
}
