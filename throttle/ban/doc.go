// Package ban is the block list: which clients and networks are not served, why, who said so, and until when.
//
//	operator: Add, Remove ──┐
//	mechanism: Offend ──────┼─> List ──> Judge, Find (no locks)
//	store: Keep, at start ──┘     └────> Watch: the kernel, other nodes; Keep: the store, written behind
//
// Who forges a stamp is banned by the id that weir gave to it, and not by its address: behind one address there may be
// a whole company. Only when several different clients of one address were banned within a while is the address banned
// as well. Operators ban clients and networks of any size; what an operator has banned no mechanism prolongs, shortens
// or pushes out.
//
// The list is bounded. When it is full, the ban that ends soonest is dropped, unless an operator added it.
//
// Most callers want New, Offend and the List as a throttle, in `accept:` and in `throttles:`. All methods are safe for
// concurrent use; looking somebody up takes no lock and allocates nothing. Time is passed in; a ban that is over is not
// found even before Advance takes it off the list.
package ban
