// What a person sees when a page fails to draw itself.
import { Component, type ReactNode } from "react";
import { Button } from "react-aria-components/Button";
import type { Place } from "../router";
import { StatusIcon } from "./icons";

interface Props {
  /** Another place is another try. */
  place: Place;
  children: ReactNode;
}

interface State {
  error: Error | null;
  place: Place;
}

/** Shows the error of the components inside instead of an empty page, until the person goes to another place. */
export class ErrorBoundary extends Component<Props, State> {
  override state: State = { error: null, place: this.props.place };

  static getDerivedStateFromError(error: unknown): Partial<State> {
    return { error: error instanceof Error ? error : new Error(String(error)) };
  }

  static getDerivedStateFromProps({ place }: Props, state: State): Partial<State> | null {
    return place === state.place ? null : { error: null, place };
  }

  override render(): ReactNode {
    const { error } = this.state;
    if (error === null) return this.props.children;
    return (
      <div className="empty" role="alert">
        <StatusIcon status="error" />
        <h1 className="empty-title">This page could not be shown.</h1>
        <p className="mono">{error.message}</p>
        <p>
          <Button className="button" onPress={() => location.reload()}>
            Reload
          </Button>
        </p>
      </div>
    );
  }
}
