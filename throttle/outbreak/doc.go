// Package outbreak is the mail throttle: it limits how fast each user's outgoing mail reaches different recipients. Too
// fast is delayed, not lost; far too fast stops the user. People hardly notice; a virus, or a spammer with a stolen
// password, does.
//
//	to one:      in the working set? -yes-> now
//	                   | no
//	             slack > 0? -yes-> now, slack - 1, into the working set
//	                   | no
//	             delay queue                     more than stop waiting? -yes-> the user is stopped
//
//	to several:  as many as mSlack go now, mSlack - 1 for each
//	             the others: delay queue         more than stop waiting? -yes-> the user is stopped
//
//	each period: somebody waits? -yes-> the first recipient leaves the queue, of a mail to one into the working set
//	             nobody waits?   -yes-> slack + 1, mSlack + 1, up to their maxima
//
// A State is what is remembered of one user, and a pure state machine: time is passed in, nothing waits, nothing is
// stored. Most callers want Tick, and then Submit for a mail, and keep the state with the mail in one transaction
// (AppendBinary, UnmarshalBinary; some 55 bytes a user). Due says when to call Tick again. The clock of a user starts
// with the first mail, and is run when it is needed: a user who sends nothing costs nothing.
//
// Options are what operators write. Params are what holds for one user: own Limits go before those that the options
// have for the user, which go before the general ones.
package outbreak
