#!/bin/bash
# Lets the standby replicate.
echo "host replication postgres all scram-sha-256" >> "$PGDATA/pg_hba.conf"
