// Requests to the hub, and what can go wrong with them.
import type {
  Cluster,
  ClusterList,
  ErrorDetail,
  EventPage,
  KindCountList,
  NamespaceList,
  ObjectDetail,
  ObjectPage,
  RelatedList,
  StatusClass,
} from "./types";
import type { SortKey } from "../model/urls";
import { setSignedOut } from "./session";

/** After this long without an answer a request is given up. */
const DEADLINE = 20_000;

/** Why a request failed: the code and the request id come from the hub, if it answered. */
export class ApiError extends Error {
  constructor(
    /** The HTTP status; 0 if there was no answer. */
    readonly status: number,
    readonly code: string,
    message: string,
    readonly requestId: string | null,
    /** What was asked for. */
    readonly path: string,
  ) {
    super(message);
    this.name = "ApiError";
  }

  get isSignedOut(): boolean {
    return this.status === 401;
  }

  get isForbidden(): boolean {
    return this.status === 403;
  }

  get isNotFound(): boolean {
    return this.status === 404;
  }

  /** Whether the hub could not be reached at all. */
  get isUnreachable(): boolean {
    return this.status === 0;
  }
}

/** Asks the hub for JSON. The browser adds `If-None-Match` itself, so an unchanged answer costs no body. */
export async function get<T>(path: string, signal?: AbortSignal): Promise<T> {
  const deadline = AbortSignal.timeout(DEADLINE);
  let response: Response;
  try {
    response = await fetch(path, {
      headers: { Accept: "application/json" },
      credentials: "same-origin",
      cache: "no-cache",
      signal: signal ? AbortSignal.any([signal, deadline]) : deadline,
    });
  } catch (error) {
    if (signal?.aborted) throw error;
    const message = deadline.aborted ? `the hub did not answer within ${DEADLINE / 1000} s` : "the hub cannot be reached";
    throw new ApiError(0, "unreachable", message, null, path);
  }
  if (!response.ok) throw await failure(response, path);
  return (await response.json()) as T;
}

async function failure(response: Response, path: string): Promise<ApiError> {
  const body: unknown = await response.json().catch(() => null);
  if (response.status === 401) setSignedOut();
  const error = (body as { error?: Partial<ErrorDetail> } | null)?.error;
  return new ApiError(
    response.status,
    error?.code ?? "unknown",
    error?.message ?? `the hub answered ${response.status}`,
    error?.request_id ?? response.headers.get("x-request-id"),
    path,
  );
}

/** Ends the session. */
export async function signOut(): Promise<void> {
  const response = await fetch("/api/v1/sign-out", { method: "POST", credentials: "same-origin" });
  if (!response.ok) throw await failure(response, "/api/v1/sign-out");
  setSignedOut();
}

/** Which objects to list. */
export interface ObjectsQuery {
  cluster?: string | null;
  kind?: string | null;
  namespace?: string | null;
  q?: string;
  status?: StatusClass | null;
  sort?: SortKey;
  order?: "asc" | "desc";
}

/** Which Kubernetes events to list. */
export interface EventsQuery {
  cluster?: string;
  namespace?: string;
  involved?: string;
  type?: string;
}

function search(parts: object): string {
  const text = new URLSearchParams();
  for (const [key, value] of Object.entries(parts)) {
    if (value !== null && value !== undefined && value !== "") text.set(key, String(value));
  }
  return text.size === 0 ? "" : `?${text}`;
}

const cluster = (id: string) => `/api/v1/clusters/${encodeURIComponent(id)}`;
const object = (id: string, uid: string) => `${cluster(id)}/objects/${encodeURIComponent(uid)}`;

export const api = {
  clusters: (signal?: AbortSignal) => get<ClusterList>("/api/v1/clusters", signal),
  cluster: (id: string, signal?: AbortSignal) => get<Cluster>(cluster(id), signal),
  counts: (id: string, namespace: string | null, signal?: AbortSignal) =>
    get<KindCountList>(`${cluster(id)}/counts${search({ namespace })}`, signal),
  namespaces: (id: string, signal?: AbortSignal) => get<NamespaceList>(`${cluster(id)}/namespaces`, signal),
  objects: (query: ObjectsQuery, limit: number, cursor: string | null, signal?: AbortSignal) =>
    get<ObjectPage>(`/api/v1/objects${search({ ...query, limit, cursor })}`, signal),
  object: (id: string, uid: string, signal?: AbortSignal) => get<ObjectDetail>(object(id, uid), signal),
  related: (id: string, uid: string, signal?: AbortSignal) =>
    get<RelatedList>(`${object(id, uid)}/related`, signal),
  events: (query: EventsQuery, limit: number, cursor: string | null, signal?: AbortSignal) =>
    get<EventPage>(`/api/v1/events${search({ ...query, limit, cursor })}`, signal),
};
