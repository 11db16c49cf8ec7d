-- The table of the locks, and the statements that read it. Writes are mutations of a commit.

-- table: table
-- granted_at is the commit timestamp of the grant, and its microseconds are the fence. Spanner
-- deletes a row whose lease ended a day ago; a release deletes its row at once.
CREATE TABLE IF NOT EXISTS `{t}` (
  name STRING(MAX) NOT NULL,
  owner STRING(MAX),
  granted_at TIMESTAMP OPTIONS (allow_commit_timestamp = true),
  ends_at TIMESTAMP NOT NULL,
  ttl_us INT64 NOT NULL,
  meta STRING(MAX) NOT NULL,
  revoked_owner STRING(MAX),
  revoked_reason STRING(MAX)
) PRIMARY KEY (name), ROW DELETION POLICY (OLDER_THAN(ends_at, INTERVAL 1 DAY))

-- part: columns
owner, UNIX_MICROS(granted_at), UNIX_MICROS(ends_at), ttl_us, meta, revoked_owner, revoked_reason,
UNIX_MICROS(CURRENT_TIMESTAMP())

-- statement: look
SELECT wanted, {columns} FROM UNNEST(@names) AS wanted LEFT JOIN `{t}` ON name = wanted

-- statement: lock
-- A shared lock would have to be upgraded at the commit, and two that wait for that abort.
@{LOCK_SCANNED_RANGES=exclusive} {look}

-- statement: scan
SELECT name, {columns} FROM `{t}`
WHERE STARTS_WITH(name, @prefix) AND owner IS NOT NULL AND ends_at > CURRENT_TIMESTAMP()
ORDER BY name
