-- The statements of memos: a name has one row, since all its items end together.

-- statement: remember, kind memos
INSERT INTO {t}_memos AS m VALUES ($1, jsonb_build_object($2::text, $3::bigint),
  clock_timestamp() + $4::float8 * interval '1 second')
ON CONFLICT (name) DO UPDATE SET until = greatest(m.until, excluded.until),
  items = CASE WHEN m.until <= clock_timestamp() THEN excluded.items ELSE
    m.items || jsonb_build_object($2::text, greatest((m.items ->> $2::text)::bigint, $3::bigint)) END

-- statement: recall, kind memos
SELECT items FROM {t}_memos WHERE name = $1 AND until > clock_timestamp()

-- statement: forget, kind memos
DELETE FROM {t}_memos WHERE name = $1
