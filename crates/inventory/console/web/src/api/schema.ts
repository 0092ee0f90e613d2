// Generated from the hub's openapi.json by `npm run schema`. Do not edit.
export type paths = Record<string, never>;
export type webhooks = Record<string, never>;
export interface components {
    schemas: {
        /** @description An agent. */
        AgentInfo: {
            /** @description Its version. */
            agent_version: string | null;
            /** @description Its client. */
            id: string;
            /** @description Its last request that was accepted. */
            last_contact: string | null;
            /** @description Whether it is in contact. */
            state: components["schemas"]["ClusterState"];
        };
        /** @description The agents of a cluster. */
        AgentList: {
            /** @description One at most. */
            items: components["schemas"]["AgentInfo"][];
        };
        /** @description Something that people should know of. */
        Alert: {
            /** @description When it last happened. */
            at: string;
            /** @description What happened. */
            text: string;
        };
        /** @description A cluster. */
        Cluster: {
            /** @description Changes in each of the last 30 minutes, oldest first. */
            activity: number[];
            /** @description The version of its agent. */
            agent_version: string | null;
            /** @description What people should know of, newest first. */
            alerts: components["schemas"]["Alert"][];
            /** @description How many of each kind. */
            counts: {
                [key: string]: number;
            };
            /**
             * Format: int64
             * @description The interval of its heartbeats, once it is learned.
             */
            heartbeat_seconds: number | null;
            /** @description Its id in the API: the client that it is bound to. */
            id: string;
            /** @description The version of its API server. */
            kubernetes_version: string | null;
            /** @description The last request of its agent that was accepted. */
            last_contact: string | null;
            /** @description When a snapshot was last complete. */
            last_snapshot: string | null;
            /** @description Its name, for people. */
            name: string;
            /**
             * Format: int64
             * @description How many live objects it has.
             */
            objects: number;
            /** @description How many of each kind are in a bad state. A kind without any is left out. */
            problems: {
                [key: string]: number;
            };
            /** @description Whether its data is current. */
            state: components["schemas"]["ClusterState"];
            /** @description Since when it is in this state. */
            state_since: string;
            /** @description The uid of its namespace `kube-system`, once the agent was heard of. */
            uid: string | null;
        };
        /** @description All clusters. */
        ClusterList: {
            /** @description By name. */
            items: components["schemas"]["Cluster"][];
        };
        /**
         * @description Whether the data of a cluster is current.
         * @enum {string}
         */
        ClusterState: "pending" | "connected" | "stale" | "disconnected";
        /** @description The body of every error. */
        ErrorBody: {
            /** @description What went wrong. */
            error: components["schemas"]["ErrorDetail"];
        };
        /** @description What went wrong. */
        ErrorDetail: {
            /** @description For programs. */
            code: string;
            /** @description For people. */
            message: string;
            /** @description By which the log knows the request. */
            request_id: string;
        };
        /** @description A page of Events. */
        EventList: {
            /** @description The latest first. */
            items: components["schemas"]["KubernetesEvent"][];
            /** @description The cursor of the next page; null on the last one. */
            next: string | null;
        };
        /** @description The hub answers. */
        Health: {
            /** @description Always `ok`. */
            status: string;
        };
        /** @description What an Event is about. */
        Involved: {
            /** @description The kind. */
            kind: string;
            /** @description The name. */
            name: string;
            /** @description The namespace. */
            namespace: string | null;
            /** @description The uid. */
            uid: string | null;
        };
        /** @description How many objects of a kind there are. */
        KindCount: {
            /**
             * Format: int64
             * @description How many.
             */
            count: number;
            /** @description The kind. */
            kind: string;
            /**
             * Format: int64
             * @description How many of them are in a bad state.
             */
            problems: number;
        };
        /** @description How many objects of each kind there are. */
        KindCountList: {
            /** @description By kind. */
            items: components["schemas"]["KindCount"][];
        };
        /** @description An Event of Kubernetes. */
        KubernetesEvent: {
            /** @description The id of its cluster. */
            cluster: string;
            /**
             * Format: int64
             * @description How often.
             */
            count: number;
            /** @description When first. */
            first: string | null;
            /** @description What it is about. */
            involved: components["schemas"]["Involved"];
            /** @description When last. */
            last: string | null;
            /** @description What happened. */
            message: string;
            /** @description Its namespace. */
            namespace: string | null;
            /** @description Why, in one word. */
            reason: string;
            /** @description Who reports it. */
            source: string | null;
            /** @description Normal or Warning. */
            type: string;
            /** @description Its uid. */
            uid: string;
        };
        /** @description A namespace. */
        Namespace: {
            /** @description How many of each kind. */
            counts: {
                [key: string]: number;
            };
            /** @description Its name. */
            name: string;
            /**
             * Format: int64
             * @description How many live objects are in it.
             */
            objects: number;
            /** @description Its phase, if the hub knows the Namespace itself. */
            phase: string | null;
            /**
             * Format: int64
             * @description How many of them are in a bad state.
             */
            problems: number;
            /** @description Its uid, if the hub knows the Namespace itself. */
            uid: string | null;
        };
        /** @description The namespaces of a cluster. */
        NamespaceList: {
            /** @description By name. */
            items: components["schemas"]["Namespace"][];
        };
        /** @description One object. */
        ObjectDetail: components["schemas"]["ObjectSummary"] & {
            /** @description Since when it is gone. */
            deleted: string | null;
            /** @description When the hub first heard of it. */
            first_seen: string;
            /** @description What the agent sent of it, redacted. */
            object: Record<string, never>;
        };
        /** @description A page of objects. */
        ObjectList: {
            /** @description In the order that was asked for. */
            items: components["schemas"]["ObjectSummary"][];
            /** @description The cursor of the next page; null on the last one. */
            next: string | null;
            /**
             * Format: int64
             * @description How many objects there are on all pages.
             */
            total: number;
        };
        /** @description An object in a list. */
        ObjectSummary: {
            /** @description When it last changed at the hub. */
            changed: string;
            /** @description The id of its cluster. */
            cluster: string;
            /** @description The name of its cluster. */
            cluster_name: string;
            /** @description When it was made. */
            created: string | null;
            /** @description What people want to see of its kind, such as `node`, `ready` or `image`. */
            facts: {
                [key: string]: string;
            };
            /** @description Its kind. */
            kind: string;
            /** @description Its name. */
            name: string;
            /** @description Its namespace; null for kinds without one. */
            namespace: string | null;
            /** @description Whether its cluster is silent, so that this may be out of date. */
            stale: boolean;
            /** @description Its status. */
            status: components["schemas"]["Status"];
            /** @description Its uid. */
            uid: string;
        };
        /** @description Objects that have to do with another one. */
        RelatedGroup: {
            /** @description Which. */
            items: components["schemas"]["ObjectSummary"][];
            /** @description How, such as `Runs on`. */
            relation: string;
        };
        /** @description All objects that have to do with another one. */
        RelatedList: {
            /** @description By relation. Relations without objects are left out. */
            groups: components["schemas"]["RelatedGroup"][];
        };
        /** @description A status for people. */
        Status: {
            /** @description How good or bad it is. */
            class: components["schemas"]["StatusClass"];
            /** @description In one or two words. */
            word: string;
        };
        /**
         * @description How good or bad a status is.
         * @enum {string}
         */
        StatusClass: "ok" | "progress" | "warning" | "error" | "none";
    };
    responses: never;
    parameters: never;
    requestBodies: never;
    headers: never;
    pathItems: never;
}
export type $defs = Record<string, never>;
export type operations = Record<string, never>;
