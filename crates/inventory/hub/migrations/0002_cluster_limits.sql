-- What a cluster has in the database, objects that are gone included. Triggers keep both, so that they are true in every transaction.
ALTER TABLE clusters ADD COLUMN stored_rows INTEGER NOT NULL DEFAULT 0;
ALTER TABLE clusters ADD COLUMN stored_bytes INTEGER NOT NULL DEFAULT 0;

UPDATE clusters SET
    stored_rows = (SELECT count(*) FROM objects WHERE objects.cluster = clusters.id),
    stored_bytes = (SELECT coalesce(sum(octet_length(object)), 0) FROM objects WHERE objects.cluster = clusters.id);

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

CREATE INDEX objects_gone_of_cluster ON objects (cluster, deleted_at) WHERE deleted_at IS NOT NULL;

-- `soft` is 2 for an object that is displaced: an agent reported it, and another live object has its name. It comes back when that object
-- is gone. `soft` is 1 for an object that a complete snapshot did not name.
CREATE INDEX objects_displaced ON objects (cluster, kind, namespace, name) WHERE soft = 2;
