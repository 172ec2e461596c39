// Package bloom limits by source network in memory that does not grow with the number of sources.
//
// Every source has k limiters, found by keyed hashes in a table of many. It is granted what it asks for when they have
// the tokens, one of them or several together. A source that shares some of them with a flood still has the others; it
// is refused only when all k are drained, and how many innocent networks that hits follows from the size of the table
// alone (Collateral).
//
//	source -> network (network.go) -> SipHash-1-3 (hash.go) -> k slots (table.go) -> tokens
//
// A table is made of lines of 64 bytes: 62 limiters of 8 bits, or 31 of 16, and a time counter of 16 bits. A limiter
// stores what was spent, so that fresh memory is a table of full limiters. It counts from the time of its line: what
// has come due since is taken off by whoever looks. So a grant mostly reads one line and writes one word. A line is
// filled, and its time set, when its limiters could not count further otherwise.
//
// Most programs want New and Allow. The Limiter has prefixes at several levels, groups, exemptions, keys that rotate,
// and an estimate of the damage. A Table is one structure for those who hash and keep time themselves, such as the
// program in the kernel, which has the same lines and the same hash.
package bloom
