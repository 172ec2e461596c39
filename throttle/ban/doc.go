// Package ban is the block list: which clients and networks are not served, why, who said so, and until when.
//
//	operator: Add, Remove ──┐
//	mechanism: Offend ──────┼─> List ──> Judge, Find (no locks)
//	store: Keep, at start ──┘     └────> Watch: the kernel, other nodes; Keep: the store, written behind
//
// A client that forges a stamp is banned by the id that weir gave to it, at its address: a whole company may share the
// address, and somebody else may know the id. Only when several clients of one address were banned within a while is
// the address banned as well.
// Operators ban clients and networks of any size; no mechanism prolongs, shortens or pushes out an operator's ban.
//
// The list is bounded. When it is full, the ban that ends soonest is dropped, unless an operator added it.
//
// Most callers want New, Offend and the List as a throttle, in `accept:` and in `throttles:`. All methods are safe for
// concurrent use; a look-up takes no lock, and allocates only for the id of a cookie. Time is passed in; a ban that is
// over is not found.
package ban
