-- Times are milliseconds since 1970. Tokens are kept as their SHA-256 alone.

-- What the running hub tells the commands that work on the same database: its URLs.
CREATE TABLE settings (
    name  TEXT PRIMARY KEY,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE clients (
    id       TEXT PRIMARY KEY,
    name     TEXT NOT NULL,
    created  INTEGER NOT NULL,
    disabled INTEGER NOT NULL DEFAULT 0
) STRICT;

-- Public keys of P-256 as uncompressed points; `kid` is the thumbprint of RFC 7638.
CREATE TABLE client_keys (
    client  TEXT NOT NULL REFERENCES clients (id) ON DELETE CASCADE,
    kid     TEXT NOT NULL,
    point   BLOB NOT NULL,
    created INTEGER NOT NULL,
    PRIMARY KEY (client, kid)
) STRICT, WITHOUT ROWID;

-- Assertions that were used, until they would be refused for their age.
CREATE TABLE jti_seen (
    client  TEXT NOT NULL REFERENCES clients (id) ON DELETE CASCADE,
    jti     BLOB NOT NULL,
    expires INTEGER NOT NULL,
    PRIMARY KEY (client, jti)
) STRICT, WITHOUT ROWID;

CREATE TABLE tokens (
    hash    BLOB PRIMARY KEY,
    client  TEXT NOT NULL REFERENCES clients (id) ON DELETE CASCADE,
    expires INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE sign_in_tokens (
    hash    BLOB PRIMARY KEY,
    expires INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE sessions (
    hash    BLOB PRIMARY KEY,
    expires INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- One for each client. `uid` is pinned at the first contact. `stored_rows` and `stored_bytes` say what the cluster has in the database,
-- objects that are gone included.
CREATE TABLE clusters (
    id                 INTEGER PRIMARY KEY,
    client             TEXT NOT NULL UNIQUE REFERENCES clients (id) ON DELETE CASCADE,
    name               TEXT NOT NULL,
    uid                TEXT,
    kubernetes_version TEXT,
    platform           TEXT,
    region             TEXT,
    agent_version      TEXT,
    created            INTEGER NOT NULL,
    last_contact       INTEGER,
    last_snapshot      INTEGER,
    connected_since    INTEGER,
    heartbeats         TEXT NOT NULL DEFAULT '[]',
    stored_rows        INTEGER NOT NULL DEFAULT 0,
    stored_bytes       INTEGER NOT NULL DEFAULT 0
) STRICT;

-- `namespace` is empty for kinds without one. `deleted_at` is empty for live objects. `soft` is 1 for an object that a complete
-- snapshot did not name, and 2 for one whose name another live object has; both may come back. `link` is what related objects are
-- found by: the node of a Pod, the CronJob of a Job, the uid that an Event is about. `occurred` is when an Event happened last.
CREATE TABLE objects (
    id         INTEGER PRIMARY KEY,
    cluster    INTEGER NOT NULL REFERENCES clusters (id) ON DELETE CASCADE,
    uid        TEXT NOT NULL,
    kind       TEXT NOT NULL,
    namespace  TEXT NOT NULL,
    name       TEXT NOT NULL,
    folded     TEXT NOT NULL,
    object     TEXT NOT NULL,
    digest     INTEGER NOT NULL,
    class      TEXT NOT NULL,
    word       TEXT NOT NULL,
    link       TEXT,
    occurred   INTEGER,
    created    INTEGER,
    first_seen INTEGER NOT NULL,
    changed    INTEGER NOT NULL,
    deleted_at INTEGER,
    soft       INTEGER NOT NULL DEFAULT 0,
    UNIQUE (cluster, uid)
) STRICT;

CREATE UNIQUE INDEX objects_live ON objects (cluster, kind, namespace, name) WHERE deleted_at IS NULL;
-- Lists by name. The last two columns let a filter pass over rows without reading them.
CREATE INDEX objects_by_name ON objects (folded, cluster, uid, class, namespace) WHERE deleted_at IS NULL;
CREATE INDEX objects_by_kind_and_name ON objects (kind, folded, cluster, uid, class, namespace) WHERE deleted_at IS NULL;
CREATE INDEX objects_of_cluster_by_name ON objects (cluster, kind, folded, uid, class, namespace) WHERE deleted_at IS NULL;
-- Lists by the time of the last change.
CREATE INDEX objects_by_change ON objects (changed, cluster, uid) WHERE deleted_at IS NULL;
CREATE INDEX objects_of_cluster_by_change ON objects (cluster, kind, changed, uid) WHERE deleted_at IS NULL;
CREATE INDEX objects_by_link ON objects (link, kind, cluster) WHERE deleted_at IS NULL AND link IS NOT NULL;
CREATE INDEX events_by_occurrence ON objects (occurred, cluster, uid) WHERE deleted_at IS NULL AND kind = 'Event';
CREATE INDEX objects_gone ON objects (deleted_at) WHERE deleted_at IS NOT NULL;
CREATE INDEX objects_gone_of_cluster ON objects (cluster, deleted_at) WHERE deleted_at IS NOT NULL;
CREATE INDEX objects_displaced ON objects (cluster, kind, namespace, name) WHERE soft = 2;
CREATE INDEX events_gone ON objects (deleted_at) WHERE deleted_at IS NOT NULL AND kind = 'Event';

-- How many live objects there are. Triggers keep it, so that it is true in every transaction.
CREATE TABLE counts (
    cluster   INTEGER NOT NULL REFERENCES clusters (id) ON DELETE CASCADE,
    kind      TEXT NOT NULL,
    namespace TEXT NOT NULL,
    class     TEXT NOT NULL,
    n         INTEGER NOT NULL,
    PRIMARY KEY (cluster, kind, namespace, class)
) STRICT, WITHOUT ROWID;

CREATE TRIGGER objects_count_insert AFTER INSERT ON objects WHEN new.deleted_at IS NULL
BEGIN
    INSERT INTO counts (cluster, kind, namespace, class, n) VALUES (new.cluster, new.kind, new.namespace, new.class, 1)
    ON CONFLICT (cluster, kind, namespace, class) DO UPDATE SET n = n + 1;
END;

CREATE TRIGGER objects_count_leave AFTER UPDATE OF kind, namespace, class, deleted_at ON objects
WHEN old.deleted_at IS NULL
    AND (new.deleted_at IS NOT NULL OR old.kind <> new.kind OR old.namespace <> new.namespace OR old.class <> new.class)
BEGIN
    UPDATE counts SET n = n - 1
    WHERE cluster = old.cluster AND kind = old.kind AND namespace = old.namespace AND class = old.class;
    DELETE FROM counts
    WHERE cluster = old.cluster AND kind = old.kind AND namespace = old.namespace AND class = old.class AND n <= 0;
END;

CREATE TRIGGER objects_count_join AFTER UPDATE OF kind, namespace, class, deleted_at ON objects
WHEN new.deleted_at IS NULL
    AND (old.deleted_at IS NOT NULL OR old.kind <> new.kind OR old.namespace <> new.namespace OR old.class <> new.class)
BEGIN
    INSERT INTO counts (cluster, kind, namespace, class, n) VALUES (new.cluster, new.kind, new.namespace, new.class, 1)
    ON CONFLICT (cluster, kind, namespace, class) DO UPDATE SET n = n + 1;
END;

CREATE TRIGGER objects_count_delete AFTER DELETE ON objects WHEN old.deleted_at IS NULL
BEGIN
    UPDATE counts SET n = n - 1
    WHERE cluster = old.cluster AND kind = old.kind AND namespace = old.namespace AND class = old.class;
    DELETE FROM counts
    WHERE cluster = old.cluster AND kind = old.kind AND namespace = old.namespace AND class = old.class AND n <= 0;
END;

-- Changes of objects per minute.
CREATE TABLE activity (
    cluster INTEGER NOT NULL REFERENCES clusters (id) ON DELETE CASCADE,
    minute  INTEGER NOT NULL,
    changes INTEGER NOT NULL,
    PRIMARY KEY (cluster, minute)
) STRICT, WITHOUT ROWID;

CREATE TABLE alerts (
    cluster INTEGER NOT NULL REFERENCES clusters (id) ON DELETE CASCADE,
    text    TEXT NOT NULL,
    at      INTEGER NOT NULL,
    PRIMARY KEY (cluster, text)
) STRICT, WITHOUT ROWID;

-- What a cluster has in the database. Triggers keep it, so that it is true in every transaction.
CREATE TRIGGER objects_stored_insert AFTER INSERT ON objects
BEGIN
    UPDATE clusters SET stored_rows = stored_rows + 1, stored_bytes = stored_bytes + octet_length(new.object)
    WHERE id = new.cluster;
END;

CREATE TRIGGER objects_stored_update AFTER UPDATE OF object ON objects
WHEN octet_length(old.object) <> octet_length(new.object)
BEGIN
    UPDATE clusters SET stored_bytes = stored_bytes + octet_length(new.object) - octet_length(old.object)
    WHERE id = new.cluster;
END;

CREATE TRIGGER objects_stored_delete AFTER DELETE ON objects
BEGIN
    UPDATE clusters SET stored_rows = stored_rows - 1, stored_bytes = stored_bytes - octet_length(old.object)
    WHERE id = old.cluster;
END;
