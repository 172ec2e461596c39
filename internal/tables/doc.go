// Package tables has tables of fixed size for what is remembered of strangers: clients, networks, accounts that anybody
// can invent. No flood makes them grow, and nothing is allocated after the first entry.
//
// A Sets is a table in which each key shares a set of a few entries with others. When a new key comes, the entry that
// is worth least makes room. The caller hashes keys with a secret seed, so that nobody outside knows which share a set.
//
// MayTake says who may have one more of a bound that many share.
package tables
