-- What the catalog says of the tables $1 and functions $2 of the current namespace: a kind, a name
-- and a definition for each object, and whatever else hangs on these tables. Definitions are of the
-- server's own wording, without the namespace. What only makes the tables faster or slower is left
-- out.
WITH ours AS (SELECT oid, relname FROM pg_class WHERE relnamespace = current_schema()::regnamespace AND relname = ANY ($1) AND relkind IN ('r', 'p', 'v', 'm', 'f'))
SELECT 'table', relname, concat_ws(' ', relkind, relpersistence, CASE WHEN relrowsecurity OR relforcerowsecurity THEN 'row security' END)
  FROM ours JOIN pg_class USING (oid, relname)
UNION ALL
SELECT 'column', relname || '.' || attname, concat_ws(' ', format_type(atttypid, atttypmod),
    'collate ' || (SELECT collname FROM pg_collation WHERE oid = attcollation AND collname <> 'default'), CASE WHEN attnotnull THEN 'not null' END,
    'default ' || (SELECT pg_get_expr(adbin, adrelid, true) FROM pg_attrdef WHERE adrelid = attrelid AND adnum = attnum),
    CASE attidentity WHEN 'a' THEN 'identity always' WHEN 'd' THEN 'identity' END, CASE WHEN attgenerated <> '' THEN 'generated' END)
  FROM ours JOIN pg_attribute ON attrelid = ours.oid WHERE attnum > 0 AND NOT attisdropped
UNION ALL -- the constraints that say NOT NULL, from version 18 on, are in the columns
SELECT 'constraint', relname || '.' || conname, pg_get_constraintdef(c.oid, true)
    || CASE WHEN EXISTS (SELECT FROM pg_trigger WHERE tgconstraint = c.oid AND tgenabled <> 'O') THEN ' disabled' ELSE '' END
  FROM ours JOIN pg_constraint c ON conrelid = ours.oid WHERE contype NOT IN ('n', 't')
UNION ALL
SELECT 'index', relname || '.' || indexrelid::regclass, pg_get_indexdef(indexrelid, 0, true) || CASE WHEN indisvalid AND indisready AND indislive THEN '' ELSE ' invalid' END
  FROM ours JOIN pg_index ON indrelid = ours.oid
UNION ALL
SELECT 'trigger', relname || '.' || tgname, pg_get_triggerdef(t.oid, true) || CASE tgenabled WHEN 'O' THEN '' WHEN 'D' THEN ' disabled' ELSE ' enabled ' || tgenabled::text END
  FROM ours JOIN pg_trigger t ON tgrelid = ours.oid WHERE NOT tgisinternal
UNION ALL
SELECT 'rule', relname || '.' || rulename, pg_get_ruledef(r.oid, true) FROM ours JOIN pg_rewrite r ON ev_class = ours.oid
UNION ALL
SELECT 'policy', relname || '.' || polname, polcmd::text FROM ours JOIN pg_policy ON polrelid = ours.oid
UNION ALL
SELECT 'child', relname || '.' || inhrelid::regclass, 'inherits' FROM ours JOIN pg_inherits ON inhparent = ours.oid
UNION ALL
SELECT 'parent', relname || '.' || inhparent::regclass, 'inherited' FROM ours JOIN pg_inherits ON inhrelid = ours.oid
UNION ALL
SELECT 'function', proname || '(' || pg_get_function_identity_arguments(p.oid) || ')', concat_ws(' ', 'returns', pg_get_function_result(p.oid), 'language', lanname,
    'volatility', provolatile, 'parallel', proparallel, CASE WHEN proisstrict THEN 'strict' END, CASE WHEN prosecdef THEN 'security definer' END,
    array_to_string(proconfig, ' '), 'as', prosrc)
  FROM pg_proc p JOIN pg_language l ON l.oid = prolang WHERE pronamespace = current_schema()::regnamespace AND proname = ANY ($2)
