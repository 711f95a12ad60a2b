WITH made AS (INSERT INTO writer (started_at) VALUES ($1) RETURNING id)
		SELECT id FROM made WHERE set_config('attestd.writer', id::text, false) IS NOT NULL
