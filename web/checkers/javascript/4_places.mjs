const MOST = { gaps: 1000, named: 10_000, recent: 4096, recorded: 100 };

// The statements of one session in the order of their places: whether all are there. Its memory
// does not grow with their number. The reference says what each is held against.
export class Places {
  last = -1n;
  sealed = false;
  refused = 0; // places that are missing and that a later statement names as refused
  // [seq, index] of those that are there all the same, the first 100; index -1 of one long ago
  recorded = [];
  isMore = false; // there are more of them
  gaps = []; // of missing places: [first, last, prev of the statement after them]
  forgotten = 0; // gaps beyond those
  named = new Map(); // hashes of refused places
  recent = new Map(); // {index, hash} of the last statements, by seq

  add({ seq, prev, refused = [], end }, index, hash) {
    const { last } = this, before = this.recent.get(last);
    must(seq !== last, `the agent's key signed two statements with the seq ${seq}: in the records ${before?.index} and ${index}`);
    must(seq > last && !this.sealed, `seq ${seq} of record ${index} stands after ${last}, or after the end`);
    must(last < 0n || seq > last + 1n || prev === before.hash, `prev of record ${index} is not the hash of the statement in record ${before?.index}`);
    if (seq > last + 1n && this.gaps.length === MOST.gaps) this.forgotten++;
    else if (seq > last + 1n) this.gaps.push([last + 1n, seq - 1n, prev]);
    for (const one of refused) this.take(one);
    Object.assign(this, { last: seq, sealed: end === true });
    this.recent.set(seq, { index, hash });
    if (this.recent.size > MOST.recent) this.recent.delete(this.recent.keys().next().value);
  }

  take({ seq, hash }) { // an entry of refused
    const there = this.recent.get(seq), known = this.named.get(seq);
    must(!there || there.hash === hash, `it says that number ${seq} was refused, and the agent's key signed another statement of that number, in record ${there?.index}`);
    if (there) return this.wasRecorded(seq, there.index);
    must((known ?? hash) === hash, `it says that number ${seq} was refused, and an earlier statement says so of another statement of that number`);
    if (known) return;
    let at = 0;
    for (let end = this.gaps.length; at < end;) { // the first gap that ends there or later
      const middle = (at + end) >> 1;
      if (this.gaps[middle][1] >= seq) end = middle;
      else at = middle + 1;
    }
    const [first, last, after] = this.gaps[at] ?? [];
    if (first !== undefined && first <= seq) return this.fill(at, { first, last, after, seq, hash });
    if (this.forgotten === 0) this.wasRecorded(seq, -1n);
  }

  fill(at, { first, last, after, seq, hash }) { // a place of a gap
    must(seq < last || (after ?? hash) === hash, "it says that a statement was refused that is not the one which the statement after it names in prev");
    const rest = [[first, seq - 1n, undefined], [seq + 1n, last, after]].filter(([a, b]) => a <= b);
    if (this.refused === MOST.named || this.gaps.length - 1 + rest.length > MOST.gaps) return;
    this.gaps.splice(at, 1, ...rest);
    this.named.set(seq, hash);
    this.refused++;
  }

  wasRecorded(seq, index) {
    if (this.recorded.some(([known]) => known === seq)) return;
    if (this.recorded.length === MOST.recorded) this.isMore = true;
    else this.recorded.push([seq, index]);
  }

  state() { // complete, open at n, or missing a–b
    const count = this.gaps.length + this.forgotten, refused = this.refused ? `, ${this.refused} refused` : "";
    if (count === 0) return (this.sealed ? `complete: 0 to ${this.last}, sealed` : `open at ${this.last}`) + refused;
    const gaps = this.gaps.slice(0, 100).map(([a, b]) => (a === b ? `${a}` : `${a}–${b}`)).join(", ");
    return `missing ${gaps}${count > 100 ? ` and ${count - 100} ranges more` : ""}${this.sealed ? "" : `, open at ${this.last}`}${refused}`;
  }
}
