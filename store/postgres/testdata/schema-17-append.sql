WITH mine AS (SELECT id FROM writer WHERE id = $1 AND current_setting('attestd.writer', true) = id::text AND current_setting('synchronous_commit') NOT IN ('off', 'local') FOR UPDATE),
want AS (SELECT * FROM unnest($3::bigint[], $4::bigint[], $5::bytea[], $6::bigint[], $7::bigint[], $8::bytea[], $9::bytea[], $10::text[], $11::bytea[], $12::bytea[])
	AS w (chain, from_length, from_root, epoch, length, root, frontier, timestamp, log_root, log_frontier)),
locked AS (SELECT h.chain FROM head h JOIN want w ON w.chain = h.chain
	WHERE EXISTS (SELECT FROM mine) AND h.length = w.from_length AND h.root = w.from_root AND h.epoch = w.epoch ORDER BY h.chain FOR UPDATE OF h),
moved AS (UPDATE head h SET length = w.length, root = w.root, frontier = w.frontier, timestamp = w.timestamp, log_root = w.log_root, log_frontier = w.log_frontier
	FROM want w WHERE h.chain = w.chain AND h.chain IN (SELECT chain FROM locked) RETURNING h.chain, h.length),
records AS (INSERT INTO record (id, hash, signature, timestamp, payload, delegation)
	SELECT * FROM unnest($13::bigint[], $14::bytea[], $15::bytea[], $16::text[], $17::text[], $18::text[]) AS r (id, hash, signature, timestamp, payload, delegation)
	WHERE r.id >> 40 IN (SELECT chain FROM moved)),
noted AS (INSERT INTO feed (chains, lengths) SELECT array_agg(chain), array_agg(length) FROM moved HAVING count(*) > 0),
nodes AS (INSERT INTO node (chain, level, idx, hash, log_hash)
	SELECT * FROM unnest($19::bigint[], $20::bigint[], $21::bigint[], $22::bytea[], $23::bytea[]) AS n (chain, level, idx, hash, log_hash)
	WHERE n.chain IN (SELECT chain FROM moved)),
summaries AS (INSERT INTO summary (id, terms) SELECT * FROM unnest($29::bigint[], $30::bytea[]) AS s (id, terms)
	WHERE s.id >> 32 IN (SELECT chain FROM moved) ON CONFLICT (id) DO NOTHING),
keys AS (INSERT INTO idempotency_key (chain, name, request, idx, expires_at)
	SELECT * FROM unnest($24::bigint[], $25::bytea[], $26::bytea[], $27::bigint[], $28::bigint[]) AS k (chain, name, request, idx, expires_at)
	WHERE k.chain IN (SELECT chain FROM moved) ORDER BY k.chain, k.name
	ON CONFLICT (chain, name) DO UPDATE SET request = excluded.request, idx = excluded.idx, expires_at = excluded.expires_at),
receipt AS (UPDATE writer SET seq = $2, moved = (SELECT coalesce(array_agg(chain), '{}') FROM moved), touched = now() WHERE id = (SELECT id FROM mine))
SELECT EXISTS (SELECT FROM mine), (SELECT coalesce(array_agg(chain), '{}') FROM moved)
