SELECT h.chain, h.length, h.root, h.frontier, h.timestamp, h.log_root, h.log_frontier, h.epoch, k.generation, k.seed, k.public_key,
	EXISTS (SELECT FROM record WHERE id BETWEEN (h.chain << 40) + h.length AND (h.chain << 40) + 1099511627775)
	OR EXISTS (SELECT FROM node n WHERE n.chain = h.chain AND n.level = 8 AND n.idx >= h.length >> 8)
FROM head h JOIN company_key k ON k.company = abs(h.chain) AND k.ended_at IS NULL WHERE h.chain = ANY ($1)
