// Package reach finds stolen accounts by how fast the number of their different recipients grows, whatever their
// reputation and volume. A newsletter that goes to the same people again is never too much.
//
//	recipient -> new to this user's history? -no-> goes on
//	                   | yes
//	             counted in the windows of hour, day and week
//	                   |
//	             over the threshold of one of them? -no-> goes on, and is known from now on
//	                   | yes
//	             the user is flagged: until the rate falls, the action holds
//
// The history of a user is a sketch: exact while it is small, then a HyperLogLog. Addresses are never kept, only keyed
// hashes. A sketch cannot tell who is known; where an action asks for it, a set of known recipients is kept too.
//
// A State is what is remembered of one user: time is passed in, nothing waits, nothing is stored. Most callers want
// Judge for a message, which changes nothing, and Commit when it was accepted; and keep the state with the message in
// one transaction (AppendBinary, AppendKnown). A Population is what is usual among all users.
//
// Options are what operators write, and Rules what is made of them.
package reach
