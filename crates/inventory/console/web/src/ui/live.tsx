// Keeps the page true: what the hub announces is asked for again.
import { useQueryClient } from "@tanstack/react-query";
import { createContext, type ReactNode, useContext, useEffect, useState } from "react";
import { refreshLists } from "../api/lists";
import { type LiveState, listen } from "../api/live";
import { refresh } from "../api/queries";
import { clock } from "../model/age";
import { Icon } from "./icons";

interface Live {
  state: LiveState;
  since: number;
}

const LiveContext = createContext<Live>({ state: "connecting", since: 0 });

export function LiveProvider({ children }: { children: ReactNode }) {
  const client = useQueryClient();
  const [live, setLive] = useState<Live>({ state: "connecting", since: 0 });
  useEffect(
    () =>
      listen("/api/v1/live", {
        onChanges: (changes) => {
          refresh(client, changes);
          refreshLists(changes);
        },
        onReturn: () => {
          refresh(client, null);
          refreshLists(null);
        },
        onState: (state, since) => {
          setLive({ state, since });
          // An ended session closes the stream without a reason; the answer to a request names it.
          if (state === "offline") void client.invalidateQueries({ queryKey: ["clusters"] });
        },
      }),
    [client],
  );
  return <LiveContext value={live}>{children}</LiveContext>;
}

/** Whether changes reach the page. Only a loss and a return are read out. */
export function LiveSign() {
  const { state, since } = useContext(LiveContext);
  const isOffline = state === "offline";
  return (
    <div className={`live live-${state}`} role="status">
      {isOffline ? (
        <>
          <Icon name="offline" />
          <span>
            Offline<span className="wide-only"> since {clock(new Date(since).toISOString(), Date.now())}, trying again</span>
          </span>
        </>
      ) : (
        <>
          <span className="dot" aria-hidden="true" />
          <span className="wide-only">{state === "live" ? "Live" : "Connecting"}</span>
          <span className="narrow-only visually-hidden">{state === "live" ? "Live" : "Connecting"}</span>
        </>
      )}
    </div>
  );
}
